/**
 * Makes `openapi.yaml` of the parts in `openapi/`:
 *
 *   openapi.yaml           what is about the whole, and the names of the recipes in their order
 *   paths/<recipe>.yaml    its paths, and the parameters and problems that only it has
 *   schemas/<recipe>.yaml  its schemas
 *   common.yaml            parameters, headers, responses, problems and schemas of several recipes
 *
 * All of them are one document: what one refers to by `#/components/…` may stand in any other. What follows from an
 * operation is added by the rules of `contract-rules.mjs`. The nodes of the YAML are moved as they are, so that they
 * look the same in the bundle.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { isMap, parseDocument, visit, YAMLMap } from 'yaml';
import {
  HEADERS,
  LAST_PARAMETERS,
  MEMBERS,
  PARAMETERS_AFTER_LEASE_TOKEN,
  PROBLEM,
  RESPONSES,
  SUCCESS_HEADERS,
} from './contract-rules.mjs';
import { ROOT } from './install.mjs';

const PARTS = join(ROOT, 'openapi');
const METHODS = ['get', 'post', 'put', 'delete'];
const SECTIONS = ['parameters', 'headers', 'responses', 'schemas'];
const NOTE = ' Bundled from openapi/ by `npm run generate`: edit the parts, not this file.';

/**
 * @param {string} parts the folder
 * @returns the text of the bundle
 * @throws Error that names the part and what is wrong with it
 */
export async function bundleContract(parts = PARTS) {
  const document = await readPart(parts, 'openapi.yaml');
  const recipes = /** @type {string[]} */ (document.toJS().paths);
  await checkAllListed(parts, recipes);

  const paths = new YAMLMap();
  const components = /** @type {YAMLMap} */ (document.get('components'));
  for (const section of SECTIONS) components.set(section, new YAMLMap());
  const add = (/** @type {string} */ section, /** @type {YAMLMap} */ from) => {
    const problems = section === 'problems';
    const into = /** @type {YAMLMap} */ (components.get(problems ? 'responses' : section));
    if (!into) throw new Error(`no such section: ${section}`);
    for (const pair of from.items) {
      if (problems) completeProblem(document, /** @type {YAMLMap} */ (pair.value));
      into.add(pair);
    }
  };
  const addPath = (pair) => {
    pair.key.spaceBefore = paths.items.length > 0;
    paths.add(pair);
  };
  for (const file of ['common.yaml', ...recipes.map((recipe) => `paths/${recipe}.yaml`)])
    await eachPair(parts, file, (key, pair) => (key.startsWith('/') ? addPath(pair) : add(key, pair.value)));
  for (const file of await filesOf(parts, 'schemas'))
    await eachPair(parts, `schemas/${file}`, (_key, pair) =>
      /** @type {YAMLMap} */ (components.get('schemas')).add(pair),
    );
  document.set('paths', paths);

  complete(document);
  // Comments are for those who edit the parts.
  visit(document, { Node: (_key, node) => void Object.assign(node, { comment: null, commentBefore: null }) });
  document.commentBefore = NOTE;
  const path = join(ROOT, 'openapi.yaml');
  return format(document.toString({ lineWidth: 0 }), { ...(await resolveConfig(path)), filepath: path });
}

/** @param {string} parts @param {string} file */
async function readPart(parts, file) {
  const document = parseDocument(await readFile(join(parts, file), 'utf8'));
  if (document.errors.length > 0) throw new Error(`openapi/${file}: ${document.errors[0]?.message}`);
  if (!isMap(document.contents)) throw new Error(`openapi/${file} is no map`);
  return document;
}

/** @param {string} parts @param {string} file @param {(key: string, pair: any) => void} use */
async function eachPair(parts, file, use) {
  const { contents } = await readPart(parts, file);
  for (const pair of /** @type {YAMLMap<any>} */ (contents).items) {
    const key = String(pair.key);
    try {
      use(key, pair);
    } catch (error) {
      throw new Error(`openapi/${file}, ${key}: ${/** @type {Error} */ (error).message}`, { cause: error });
    }
  }
}

/** @param {string} parts @param {string} folder */
async function filesOf(parts, folder) {
  return (await readdir(join(parts, folder))).filter((name) => name.endsWith('.yaml')).sort();
}

/** @param {string} parts @param {string[]} recipes */
async function checkAllListed(parts, recipes) {
  const unlisted = (await filesOf(parts, 'paths')).filter((name) => !recipes.includes(name.replace('.yaml', '')));
  if (unlisted.length > 0) throw new Error(`\`paths\` of openapi/openapi.yaml does not list ${unlisted.join(', ')}`);
}

/** Adds to every operation and response what the rules say. @param {import('yaml').Document} document */
function complete(document) {
  const plain = document.toJS();
  for (const [path, item] of Object.entries(plain.paths))
    for (const method of METHODS) {
      if (item[method] === undefined) continue;
      const facts = factsOf(plain, item, method);
      const node = /** @type {YAMLMap} */ (document.getIn(['paths', path, method]));
      addParameters(document, node, facts, plain);
      addMembers(document, node, facts);
      addResponses(document, node, facts);
    }
  for (const { value } of /** @type {YAMLMap<any, any>} */ (document.getIn(['components', 'responses'])).items)
    addHeaders(document, value, HEADERS);
}

/** @returns {import('./contract-rules.mjs').Facts} */
function factsOf(plain, item, method) {
  const operation = item[method];
  const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((one) => resolve(plain, one));
  const named = (/** @type {string} */ name) => parameters.some((one) => one.name === name);
  const bodies = Object.values(operation.requestBody?.content ?? {});
  const inBody = bodies.flatMap(({ schema }) => Object.keys(resolve(plain, schema).properties ?? {}));
  const successes = Object.entries(operation.responses).filter(([status]) => status.startsWith('2'));
  const types = successes.flatMap(([, one]) => Object.keys(resolve(plain, one).content ?? {}));
  return {
    method,
    needsCredential: operation.security === undefined,
    isRateLimited: operation['x-rate-limited'] ?? true,
    waits: named('waitMs') || inBody.includes('waitMs'),
    streams: types.includes('text/event-stream'),
    hasBody: operation.requestBody !== undefined,
    hasJsonBody: bodies.length === 1 && 'application/json' in operation.requestBody.content,
    answersContent: types.length > 0,
    takes: named,
    takesRequestId: inBody.includes('requestId'),
  };
}

/** @param {YAMLMap} node */
function addParameters(document, node, facts, plain) {
  const wanted = (/** @type {[string, (facts: any) => boolean][]} */ rules) =>
    rules.filter(([, applies]) => applies(facts)).map(([name]) => document.createNode(refTo('parameters', name)));
  if (!node.has('parameters'))
    insertBefore(document, node, ['x-max-body-bytes', 'requestBody', 'responses'], 'parameters', []);
  const parameters = /** @type {import('yaml').YAMLSeq<any>} */ (node.get('parameters'));
  const tokens = parameters.items.filter((one) => resolve(plain, one.toJSON()).name === 'Lease-Token');
  parameters.items.splice(tokens.length, 0, ...wanted(PARAMETERS_AFTER_LEASE_TOKEN));
  parameters.items.push(...wanted(LAST_PARAMETERS));
  if (parameters.items.length === 0) node.delete('parameters');
}

/** @param {YAMLMap} node */
function addMembers(document, node, facts) {
  for (const [name, value, applies] of MEMBERS)
    if (node.toJSON()[name] === null) node.delete(name);
    else if (applies(facts) && !node.has(name)) insertBefore(document, node, ['requestBody', 'responses'], name, value);
}

/** @param {YAMLMap} node */
function addResponses(document, node, facts) {
  const responses = /** @type {YAMLMap<any, any>} */ (node.get('responses'));
  for (const { key, value } of responses.items) {
    if (!isMap(value) || value.has('$ref')) continue;
    const own = SUCCESS_HEADERS.filter(([, , applies]) => String(key) === '200' && applies(facts));
    addHeaders(document, value, [...HEADERS, ...own]);
  }
  for (const [status, name, applies] of RESPONSES)
    if (applies(facts) && !responses.has(status))
      responses.set(document.createNode(status), reference(document, 'responses', name));
  responses.items = responses.items
    .filter(({ value }) => isMap(value))
    .sort((one, other) => Number(one.key) - Number(other.key));
}

/** @param {YAMLMap} response */
function addHeaders(document, response, wanted) {
  if (response.has('$ref')) return;
  if (!response.has('headers')) insertBefore(document, response, ['content'], 'headers', {});
  const headers = /** @type {YAMLMap<any, any>} */ (response.get('headers'));
  const pairs = wanted.map(([name, component]) => document.createPair(name, reference(document, 'headers', component)));
  headers.items = [...pairs, ...headers.items];
}

/** A problem is a response that says what it means, and perhaps shows an example. @param {YAMLMap} problem */
function completeProblem(document, problem) {
  const example = problem.get('example', true);
  problem.delete('example');
  const content = document.createNode({ [PROBLEM.type]: {} });
  content.setIn([PROBLEM.type, 'schema'], reference(document, 'schemas', PROBLEM.schema));
  if (example !== undefined) content.setIn([PROBLEM.type, 'example'], example);
  problem.set('content', content);
}

/** @returns {any} */
function reference(document, section, name) {
  return document.createNode(refTo(section, name), { flow: true });
}

/** @param {string} section @param {string} name */
function refTo(section, name) {
  return { $ref: `#/components/${section}/${name}` };
}

/** @param {YAMLMap} map @param {string[]} followers the new pair comes before the first of them that is there */
function insertBefore(document, map, followers, key, value) {
  const at = map.items.findIndex((pair) => followers.includes(String(pair.key)));
  map.items.splice(at < 0 ? map.items.length : at, 0, document.createPair(key, value));
}

function resolve(plain, value) {
  if (value?.$ref === undefined) return value;
  const target = value.$ref
    .slice(2)
    .split('/')
    .reduce((at, part) => at?.[part], plain);
  if (target === undefined) throw new Error(`openapi/ has no ${value.$ref}`);
  return resolve(plain, target);
}
