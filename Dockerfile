# Images with perepisode and the tested versions of everything it needs.
#
#     docker build --tag perepisode .                          # CPU
#     docker build --tag perepisode:cuda --target cuda .       # NVIDIA GPU; run it with --gpus all
#     docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" perepisode report episodes.csv --out report
#
# The CUDA libraries are Python packages: the machine brings only the driver and the NVIDIA Container Toolkit.

FROM python:3.12-slim AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim AS base
# `docker run --user` has neither a name nor a home; caches belong in a folder that everybody may write to
ENV HOME=/tmp
WORKDIR /work
COPY requirements.lock /wheels/
COPY --from=wheel /wheels /wheels
ENTRYPOINT ["perepisode"]
CMD ["--help"]

FROM base AS cuda
# Importing Craftax writes its textures into its own folder, which only root may do
RUN set -- /wheels/*.whl \
    && pip install --no-cache-dir --constraint /wheels/requirements.lock "$1[cuda]" \
    && JAX_PLATFORMS=cpu python -c 'import craftax.craftax.constants'
USER 1000:1000

FROM base AS cpu
RUN set -- /wheels/*.whl \
    && pip install --no-cache-dir --constraint /wheels/requirements.lock "$1[train]" \
    && python -c 'import craftax.craftax.constants'
USER 1000:1000
