/** Who may call, and from where. */
import { flag, list, matching, optionalMatching, type Setting } from './setting.js';

const ADDRESS = /^https?:\/\/[^\s?#]+$/;

export const ACCESS = {
  authFile: optionalMatching(
    {
      env: 'POSTERN_AUTH_FILE',
      sentence:
        'JSON file of API keys (`make-key` creates them), read again when it changes. Without any credentials everybody may do everything, but only on loopback.',
    },
    'the path of a file',
    /./,
  ),
  oidcIssuer: optionalMatching(
    {
      env: 'POSTERN_OIDC_ISSUER',
      sentence:
        'Identity provider whose tokens (JWTs) are accepted as credentials, exactly as the tokens name it in `iss`.',
    },
    'an address such as https://login.example.org/realms/main',
    ADDRESS,
  ),
  oidcAudience: list(
    {
      env: 'POSTERN_OIDC_AUDIENCE',
      sentence: 'Accepted audiences: the `aud` of a token must contain one of them. Required with POSTERN_OIDC_ISSUER.',
    },
    'texts separated by commas',
    (text) => (text === '' ? undefined : text),
  ),
  oidcJwks: optionalMatching(
    {
      env: 'POSTERN_OIDC_JWKS',
      sentence: 'Key set of the issuer; by default the one that its discovery document names.',
    },
    'an address, or the path of a file',
    /./,
  ),
  oidcPrincipalClaim: matching(
    {
      env: 'POSTERN_OIDC_PRINCIPAL_CLAIM',
      sentence: 'Claim that names the principal of a token; the principal is then called `oidc~…`.',
    },
    'the name of a claim',
    /./,
    'sub',
  ),
  oidcScopesClaim: matching(
    {
      env: 'POSTERN_OIDC_SCOPES_CLAIM',
      sentence: 'Claim that holds the scopes of a token, in the same form as `namespaces` of an API key.',
    },
    'the name of a claim',
    /./,
    'postern',
  ),
  oidcRules: optionalMatching(
    {
      env: 'POSTERN_OIDC_RULES',
      sentence:
        'JSON file of rules that grant namespaces and scopes to tokens according to their claims, read again when it changes.',
    },
    'the path of a file',
    /./,
  ),
  insecure: flag({
    env: 'POSTERN_INSECURE',
    sentence:
      'Allow what is otherwise refused: listening on any address without credentials, or with the key that seals lease tokens in a ZooKeeper that is open to all; and TLS files for ZooKeeper while TLS to it is off.',
  }),
  allowedHosts: list(
    {
      env: 'POSTERN_ALLOWED_HOSTS',
      sentence:
        'Host names, besides localhost and IP addresses, for which requests are accepted when there are no credentials. Others are refused because a web page could make a browser send them (DNS rebinding).',
    },
    'names without ports such as postern.shop.svc, separated by commas',
    parseHost,
  ),
  corsOrigins: list(
    { env: 'POSTERN_CORS_ORIGINS', sentence: 'Origins whose web pages may call the gateway.' },
    'origins such as https://ops.example.org, separated by commas',
    parseOrigin,
  ),
} satisfies Record<string, Setting<unknown>>;

function parseHost(text: string): string | undefined {
  return /^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})$/.test(text) ? text.toLowerCase() : undefined;
}

function parseOrigin(text: string): string | undefined {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text ? text : undefined;
}
