# A worker: the optimizer with torch and the engines, and a C++ compiler. It speaks HTTP with the web site and to the
# broker; it has no database credentials and no Django.
#
# The default takes the CUDA build of torch, which serves CPU workers too. For a smaller CPU image give a folder of wheels
# with a CPU build in it: docker build --build-context wheels=FOLDER -f deploy/worker.Dockerfile .
FROM scratch AS wheels

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /srv/fuseworks
COPY pyproject.toml requirements.lock README.md manage.py ./
COPY platform platform
COPY client client
COPY workers workers
COPY optimizer optimizer
COPY kernels kernels
RUN --mount=type=bind,from=wheels,target=/wheels \
    pip install --no-cache-dir --find-links /wheels -c requirements.lock .
# As whom the worker runs; children of a run get uids of their own only below root, so here they share this one.
RUN useradd --create-home --uid 10001 fuseworks \
    && install -d -o fuseworks -g fuseworks /var/lib/fuseworks-worker
USER fuseworks
# The compile cache (precompiled headers and ISA probes of this processor and toolchain) lies in the volume too, so that
# a container that is replaced does not make it anew.
ENV XDG_CACHE_HOME=/var/lib/fuseworks-worker/cache \
    FUSEWORKS_WORKER_SCRATCH=/var/lib/fuseworks-worker/scratch \
    FUSEWORKS_DEVICE_LOCKS=/var/lib/fuseworks-worker/devices \
    PYTHONUNBUFFERED=1
CMD ["python", "-m", "workers"]
