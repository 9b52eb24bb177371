/**
 * Express, tuned. Out of the box it sets the prototypes of every request and response, parses every query and hashes every body;
 * here the server makes objects whose prototypes are right from the start, and the frame does the rest itself.
 */
import express, { type NextFunction, type Request, type Response } from 'express';
import { IncomingMessage, ServerResponse, type RequestListener, type ServerOptions } from 'node:http';

/** Serves one request to its end; never rejects. */
export type Serve = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export interface Face {
  readonly listener: RequestListener;
  /** The classes that `http.createServer` shall make requests and responses of. */
  readonly classes: Pick<ServerOptions, 'IncomingMessage' | 'ServerResponse'>;
}

export function createFace(serve: Serve): Face {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', false);
  app.use((request: Request, response: Response, _next: NextFunction) => serve(request, response));
  return {
    // The last argument is where express goes with a target whose path it cannot find; the frame says what is wrong with it.
    listener: (request, response) => app(request as Request, response as Response, () => void serve(request, response)),
    classes: {
      IncomingMessage: withPrototype(IncomingMessage, app.request) as typeof IncomingMessage,
      ServerResponse: withPrototype(ServerResponse, app.response) as typeof ServerResponse,
    },
  };
}

/** A constructor like `original` whose objects have exactly this prototype, which itself inherits from the original's. */
function withPrototype(original: new (...args: never[]) => object, prototype: object): unknown {
  function Made(...args: unknown[]): object {
    return Reflect.construct(original, args, Made) as object;
  }
  Made.prototype = prototype;
  return Made;
}
