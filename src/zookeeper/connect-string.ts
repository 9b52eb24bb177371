/**
 * `host:port,host:port/chroot`, with IPv6 hosts in brackets (the library splits those on ':': defect 24). The order is
 * the same in every replica: lease sessions choose their server by position.
 */

const DEFAULT_PORT = 2181;

export interface Server {
  host: string;
  port: number;
}

export interface ConnectString {
  /** Sorted, without duplicates. */
  servers: Server[];
  /** '' or a path without trailing slash. */
  chroot: string;
}

/** @throws Error with a sentence that names the invalid part */
export function parseConnectString(text: string): ConnectString {
  const slash = text.indexOf('/');
  const hosts = (slash === -1 ? text : text.slice(0, slash)).split(',').map((host) => host.trim());
  const chroot = slash === -1 ? '' : text.slice(slash).replace(/\/+$/, '');
  if (chroot !== '' && !/^(\/(?!\.{1,2}(\/|$))[^/\0]+)+$/.test(chroot))
    throw new Error(`"${chroot}" is not a path for the chroot`);
  const servers = new Map(hosts.map(parseServer).map((server) => [`${server.host} ${server.port}`, server]));
  const sorted = [...servers.values()].sort((a, b) => (a.host < b.host ? -1 : a.host > b.host ? 1 : a.port - b.port));
  return { servers: sorted, chroot };
}

function parseServer(text: string): Server {
  const match = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text);
  const port = match?.[3] === undefined ? DEFAULT_PORT : Number(match[3]);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port < 1 || port > 65_535)
    throw new Error(`"${text}" is not a server: host, host:port or [IPv6]:port`);
  return { host, port };
}
