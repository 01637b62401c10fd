# The command alone, from the wheel, as a user without rights:
#   docker build -t vllm-doctor . && docker logs vllm 2>&1 | docker run --rm -i --network none vllm-doctor diagnose
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --disable-pip-version-check --constraint constraints.txt --wheel-dir /wheels '.[zstd]'

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --no-index --find-links /wheels 'vllm-log-doctor[zstd]' \
    && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin doctor
USER 10001:10001
WORKDIR /logs
ENTRYPOINT ["vllm-doctor"]
CMD ["diagnose"]
