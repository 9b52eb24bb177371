# syntax=docker/dockerfile:1
# The image holds Node, what the gateway needs at run time, and nothing else: no shell, no package manager, no root.
# `scripts/check-packaging.mjs` performs these very lines without a container engine, and starts what comes out.

# What it stands on. A tag may be another image tomorrow: a release is built with digests, docs/deploying.md says how.
ARG BUILD_IMAGE=node:24-bookworm-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot

FROM ${BUILD_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json ./
# No package needs a script of its own to be installed, and none gets to run one.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM ${BUILD_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json openapi.yaml ./
COPY scripts/build-browser.mjs scripts/build-command.mjs scripts/build-console.mjs scripts/build-gateway.mjs scripts/
COPY scripts/lib/browser-bundle.mjs scripts/lib/command-bundle.mjs scripts/lib/console-bundle.mjs scripts/lib/gateway-bundle.mjs scripts/lib/licences.mjs scripts/lib/
COPY src src
RUN npm run build:gateway && npm run build:browser && npm run build:command && npm run build:console && rm dist/.tsbuildinfo

FROM ${RUNTIME_IMAGE}
LABEL org.opencontainers.image.title="Postern" \
      org.opencontainers.image.description="A stateless HTTP coordination gateway in front of Apache ZooKeeper" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /app
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json openapi.yaml LICENSE ./
COPY scripts/probe.mjs scripts/
COPY scripts/lib/replica-here.mjs scripts/lib/
# Only loopback is open without credentials, and nobody reaches the loopback of a container: so it does not start
# until POSTERN_AUTH_FILE or POSTERN_INSECURE is set.
ENV NODE_ENV=production \
    POSTERN_HOST=0.0.0.0
# By number: Kubernetes cannot tell from a name that it is not root.
USER 65532:65532
EXPOSE 7070
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["/nodejs/bin/node", "/app/scripts/probe.mjs"]
# A young generation of this size (MiB) from the start: what a burst of requests leaves behind is gone before it is copied.
# And none of it in the old generation: what waited in the first burst is no sign of what lives long (a fifth of the CPU of a request).
ENTRYPOINT ["/nodejs/bin/node", "--enable-source-maps", "--min-semi-space-size=16", "--no-allocation-site-pretenuring", "/app/dist/main.js"]
