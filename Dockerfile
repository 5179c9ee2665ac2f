# a2a-gateway without compiler or pip of its own, and not as root.
#   docker build -t a2a-gateway .
#   docker run -p 8080:8080 -v ./gateway.yaml:/etc/a2a-gateway/gateway.yaml:ro -v a2a-gateway:/var/lib/a2a-gateway \
#     a2a-gateway
ARG PYTHON=3.13-slim

FROM python:${PYTHON} AS build
COPY requirements.lock .
RUN python -m venv --without-pip /opt/a2a-gateway \
    && pip --python /opt/a2a-gateway/bin/python install --no-cache-dir --no-compile \
        --require-hashes --only-binary :all: -r requirements.lock
COPY gateway gateway
# The package is copied rather than built: the build back end would come without a hash.
RUN cp -R gateway /opt/a2a-gateway/lib/python3*/site-packages/ \
    && printf '#!/bin/sh\nexec /opt/a2a-gateway/bin/python -m gateway "$@"\n' >/opt/a2a-gateway/bin/a2a-gateway \
    && chmod 755 /opt/a2a-gateway/bin/a2a-gateway \
    && /opt/a2a-gateway/bin/python -m compileall -q /opt/a2a-gateway/lib

FROM python:${PYTHON}
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
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["a2a-gateway", "health"]
ENTRYPOINT ["a2a-gateway"]
CMD ["serve"]
