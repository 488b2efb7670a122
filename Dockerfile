# Hermes as a server whose people are in PostgreSQL: not root, nothing kept in the container. See compose.yaml.
FROM python:3.11-slim AS packages
COPY requirements/runtime.txt requirements/postgres.txt /requirements/
RUN python -m venv /opt/hermes \
    && /opt/hermes/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
        -r /requirements/runtime.txt -r /requirements/postgres.txt

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/hermes --shell /usr/sbin/nologin hermes \
    && install -d -o hermes -g hermes -m 700 /var/lib/hermes
COPY --from=packages /opt/hermes /opt/hermes
COPY src /opt/hermes/src
RUN echo /opt/hermes/src > /opt/hermes/lib/python3.11/site-packages/hermes-source.pth \
    && /opt/hermes/bin/python -m compileall -q /opt/hermes/src \
    && /opt/hermes/bin/python -m hermes --version
ENV HERMES_HOME=/var/lib/hermes PYTHONUNBUFFERED=1
USER hermes
EXPOSE 8484
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["/opt/hermes/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8484/health', timeout=2)"]
ENTRYPOINT ["/opt/hermes/bin/python", "-m", "hermes"]
CMD ["serve"]
