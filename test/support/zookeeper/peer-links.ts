/**
 * The proxies between the servers of an ensemble, through which a test cuts one off or makes it lag.
 */
import { startTcpProxy, type TcpProxy } from './tcp-proxy.js';
import { HOST, type NodePorts } from './node.js';

/** Two for every ordered pair of servers: one for each port that they reach each other on. */
export class PeerLinks {
  readonly #links: { from: number; to: number; quorum: TcpProxy; election: TcpProxy }[] = [];

  constructor(private readonly ports: readonly NodePorts[]) {}

  async start(): Promise<void> {
    for (const [from] of this.ports.entries()) {
      for (const [to, ports] of this.ports.entries()) {
        if (from === to) continue;
        const quorum = await startTcpProxy({ port: ports.quorum, framed: false });
        const election = await startTcpProxy({ port: ports.election, framed: false });
        this.#links.push({ from: from + 1, to: to + 1, quorum, election });
      }
    }
  }

  find(from: number, to: number): { quorum: TcpProxy; election: TcpProxy } {
    const link = this.#links.find((each) => each.from === from && each.to === to);
    if (!link) throw new Error(`no link from server ${from} to server ${to}`);
    return link;
  }

  /** Everything between a server and the others, whoever opened the connection. */
  of(id: number): TcpProxy[] {
    return this.#links
      .filter(({ from, to }) => from === id || to === id)
      .flatMap(({ quorum, election }) => [quorum, election]);
  }

  /** The followers' connections go to the leader's quorum port: this is where `from` hears of new transactions. */
  quorumFrom(id: number): TcpProxy[] {
    return this.#links.filter(({ from }) => from === id).map(({ quorum }) => quorum);
  }

  /** Where `to`, while it leads, hears from its followers. */
  quorumTo(id: number): TcpProxy[] {
    return this.#links.filter(({ to }) => to === id).map(({ quorum }) => quorum);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#links.flatMap(({ quorum, election }) => [quorum.stop(), election.stop()]));
  }
}

/** The `server.N` lines as server `own` is to see them: the others behind their proxies, if there are any. */
export function serverLines(
  own: number,
  ports: readonly NodePorts[],
  links: PeerLinks | undefined,
): Record<string, string> {
  return Object.fromEntries(
    ports.map((each, index) => {
      const id = index + 1;
      const link = id === own ? undefined : links?.find(own, id);
      const quorum = link?.quorum.port ?? each.quorum;
      const election = link?.election.port ?? each.election;
      return [`server.${id}`, `${HOST}:${quorum}:${election}`];
    }),
  );
}
