# a2a-gateway without compiler or pip of its own, and not as root.
#   docker build -t a2a-gateway .
#   docker run -p 8080:8080 -v ./gateway.yaml:/etc/a2a-gateway/gateway.yaml:ro -v a2a-gateway:/var/lib/a2a-gateway \
#     a2a-gateway
# A release names the base by digest, and itself (docs/release.md):
#   docker build --build-arg BASE=python:3.13-slim@sha256:… --build-arg REVISION=$(git rev-parse HEAD) …
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /build
COPY requirements.lock requirements-release.lock ./
RUN python -m venv --without-pip /opt/a2a-gateway \
    && pip --python /opt/a2a-gateway/bin/python install --no-cache-dir --no-compile \
        --require-hashes --only-binary :all: -r requirements.lock \
    && pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements-release.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
# A wheel, so that the package has its metadata: what scans the image finds its name and version.
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheel . \
    && pip --python /opt/a2a-gateway/bin/python install --no-cache-dir --no-deps --no-compile wheel/*.whl \
    && /opt/a2a-gateway/bin/python -m compileall -q /opt/a2a-gateway/lib
RUN cyclonedx-py environment --output-reproducible --output-file /opt/a2a-gateway/sbom.cdx.json /opt/a2a-gateway/bin/python

FROM ${BASE}
ARG VERSION=0.2.0 REVISION=unknown
LABEL org.opencontainers.image.title="a2a-gateway" \
      org.opencontainers.image.description="A multi-tenant reverse-proxy gateway for the A2A (Agent2Agent) protocol." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/a2a-gateway /opt/a2a-gateway
ENV PATH=/opt/a2a-gateway/bin:$PATH A2A_GATEWAY_PROGRAM=a2a-gateway PYTHONUNBUFFERED=1 \
    STATE_DIRECTORY=/var/lib/a2a-gateway
# Whose task is whose, where `gateway.state` names no other place: it outlives the container only in a volume.
RUN install -d -m 700 -o 65532 -g 65532 /var/lib/a2a-gateway
VOLUME /var/lib/a2a-gateway
WORKDIR /etc/a2a-gateway
USER 65532:65532
# HTTP, and gRPC where `gateway.listen_grpc` says 0.0.0.0:8081.
EXPOSE 8080 8081
# Asks 127.0.0.1:9090; with another `gateway.admin` set A2A_GATEWAY_ADMIN=HOST:PORT.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["a2a-gateway", "health"]
ENTRYPOINT ["a2a-gateway"]
CMD ["serve"]
