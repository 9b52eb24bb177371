/**
 * Express, tuned. By default it sets the prototypes of every request and response, parses every query and hashes every
 * body. Here the server creates objects with the right prototypes, and the frame does the rest itself.
 */
import express, { type NextFunction, type Request, type Response } from 'express';
import { IncomingMessage, ServerResponse, type RequestListener, type ServerOptions } from 'node:http';
import type { PosternError } from '../../errors.js';
import { cutBody } from './body.js';
import { Pieces } from './pieces.js';

/** How long a client that sent too many pieces has to read its answer. */
const LINGER_MS = 500;

/** Serves one request to its end; never rejects. */
export type Serve = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export interface Face {
  readonly listener: RequestListener;
  /** The classes from which `http.createServer` should create requests and responses. */
  readonly classes: Pick<ServerOptions, 'IncomingMessage' | 'ServerResponse'>;
}

export function createFace(serve: Serve): Face {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', false);
  app.use((request: Request, response: Response, _next: NextFunction) => {
    void serve(request, response);
    forgetRouting(request);
  });
  // Real classes: V8 keeps a map ready only for objects of `class … extends …`. With `Reflect.construct` and a function
  // as its target, each object takes a detour through the runtime (135 µs instead of 23 µs for an empty request).
  class RequestOfApp extends IncomingMessage {
    #pieces: Pieces | undefined;
    #isRefused = false;

    /** Called by Node with each piece of the body as it arrives. */
    override push(piece: Buffer | null): boolean {
      // The rest of what had already been read; Node stopped reading at the first refused piece.
      if (this.#isRefused) return true;
      if (piece === null) {
        const rest = this.#pieces?.rest();
        if (rest !== undefined) super.push(rest);
        return super.push(null);
      }
      this.#pieces ??= new Pieces();
      const refused = this.#pieces.admit(piece);
      if (refused !== undefined) return this.#refuse(refused);
      const whole = this.#pieces.add(piece);
      return whole === undefined || super.push(whole);
    }

    /** How Node reads on after the answer. Its own version bypasses `push`, and with it the bound. */
    _dump(): void {
      this.removeAllListeners('data').resume();
    }

    /** Reads no more of the connection. It ends with the answer to this request, or soon if there is none to come. */
    #refuse(reason: PosternError): false {
      this.#isRefused = true;
      cutBody(this, reason);
      setTimeout(() => this.socket.destroy(), LINGER_MS).unref();
      return false;
    }
  }
  class ResponseOfApp<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {}
  // Where it is there already, Express does not create one for each response.
  Object.assign(ResponseOfApp.prototype, { locals: Object.freeze({}) });
  // Express sets the two prototypes of every request; if they are the right ones already, that costs nothing.
  Object.setPrototypeOf(RequestOfApp.prototype, app.request);
  Object.setPrototypeOf(ResponseOfApp.prototype, app.response);
  app.request = RequestOfApp.prototype as unknown as Request;
  app.response = ResponseOfApp.prototype as unknown as Response;
  return {
    // Express calls the last argument if it finds no path in the target; the frame explains what is wrong with it.
    listener: (request, response) => app(request as Request, response as Response, () => void serve(request, response)),
    classes: { IncomingMessage: RequestOfApp, ServerResponse: ResponseOfApp },
  };
}

/**
 * Lets go of what Express needs only to find the next middleware, of which there is none. A request may wait for
 * minutes, and that would be a sixth of its memory.
 */
function forgetRouting(request: Request & { _parsedUrl?: unknown }): void {
  request.next = undefined;
  request._parsedUrl = undefined;
}
