# One Dockerfile, four images: cpu, cuda (TensorFlow with CUDA), cuda-jax (Keras on JAX with CUDA) and tpu (Keras on JAX).
# deploy/container/build.sh builds them. Layers go from what changes rarely to what changes often:
# Debian's packages, the locked Python packages, the project's code.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS system
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/*
# The user who runs the image may have no entry in /etc/passwd, and can write only to /tmp and the workspace.
ENV PATH=/opt/venv/bin:$PATH LANG=C.UTF-8 SSL_CERT_FILE=/opt/venv/certificates.pem \
    HOME=/tmp USER=researcher LOGNAME=researcher DVC_SITE_CACHE_DIR=/tmp/dvc
WORKDIR /opt/mixed-precision

# The installer has its own stage: each image mounts it while it is built, and doesn't keep it.
FROM system AS installer
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
COPY requirements/uv.txt requirements/
RUN --mount=type=secret,id=ca,target=/run/ca.pem \
    python3 -m venv /opt/uv \
    && if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi \
    && /opt/uv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r requirements/uv.txt
COPY deploy/container/install.sh /opt/uv/

# The code, and each image's description of itself. The hash covers what decides results, and no times.
FROM system AS project
COPY . .
ARG BASE_IMAGE
ARG COMMIT=null
ARG DIRTY=null
RUN mkdir /identity \
    && for target in cpu cuda cuda-jax tpu; do \
         content=$({ echo "$target"; dpkg-query --show; sha256sum < "requirements/$target.txt"; } | sha256sum | cut -c1-64); \
         printf '{"target": "%s", "base": "%s", "content_sha256": "%s", "commit": %s, "dirty": %s}\n' \
           "$target" "$BASE_IMAGE" "$content" "$COMMIT" "$DIRTY" > "/identity/$target.json"; \
       done

FROM system AS cpu
COPY requirements/cpu.txt requirements/workflow.txt requirements/
RUN --mount=type=bind,from=installer,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    --mount=type=secret,id=ca,target=/run/ca.pem \
    /opt/uv/install.sh cpu
COPY --from=project /identity/cpu.json /etc/mixed-precision-image.json
COPY --from=project /opt/mixed-precision ./

FROM system AS cuda
COPY requirements/cuda.txt requirements/workflow.txt requirements/
RUN --mount=type=bind,from=installer,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    --mount=type=secret,id=ca,target=/run/ca.pem \
    /opt/uv/install.sh cuda
# Tell the loader where the CUDA libraries are, even after NVIDIA's runtime has refreshed its cache.
RUN ls -d /opt/venv/lib/python3*/site-packages/nvidia/*/lib > /etc/ld.so.conf.d/nvidia.conf && ldconfig
COPY --from=project /identity/cuda.json /etc/mixed-precision-image.json
COPY --from=project /opt/mixed-precision ./

FROM system AS cuda-jax
COPY requirements/cuda-jax.txt requirements/workflow.txt requirements/
RUN --mount=type=bind,from=installer,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    --mount=type=secret,id=ca,target=/run/ca.pem \
    /opt/uv/install.sh cuda-jax
COPY --from=project /identity/cuda-jax.json /etc/mixed-precision-image.json
COPY --from=project /opt/mixed-precision ./

FROM system AS tpu
COPY requirements/tpu.txt requirements/workflow.txt requirements/
RUN --mount=type=bind,from=installer,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/var/cache/uv \
    --mount=type=secret,id=ca,target=/run/ca.pem \
    /opt/uv/install.sh tpu
COPY --from=project /identity/tpu.json /etc/mixed-precision-image.json
COPY --from=project /opt/mixed-precision ./
