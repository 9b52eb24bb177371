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
  // Real classes, because V8 keeps a map ready only for objects of `class … extends …`: made by `Reflect.construct` with a function as
  // its target, each object costs a way through the runtime (135 µs in place of 23 µs for an empty request).
  class RequestOfApp extends IncomingMessage {}
  class ResponseOfApp<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {}
  // Express sets the two prototypes of every request; where they are what it would set, that costs nothing.
  Object.setPrototypeOf(RequestOfApp.prototype, app.request);
  Object.setPrototypeOf(ResponseOfApp.prototype, app.response);
  app.request = RequestOfApp.prototype as Request;
  app.response = ResponseOfApp.prototype as unknown as Response;
  return {
    // The last argument is where express goes with a target whose path it cannot find; the frame says what is wrong with it.
    listener: (request, response) => app(request as Request, response as Response, () => void serve(request, response)),
    classes: { IncomingMessage: RequestOfApp, ServerResponse: ResponseOfApp },
  };
}
