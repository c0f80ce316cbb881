# The web site and the dispatcher: Django alone. No torch and no engine, by the import rules; runs are the workers' work.
FROM node:24-slim AS frontend
WORKDIR /build
COPY frontend/package.json frontend/package-lock.json frontend/.npmrc ./
RUN npm ci --no-audit --no-fund --ignore-scripts
COPY frontend .
RUN npm run build

FROM python:3.13-slim
WORKDIR /srv/fuseworks
COPY requirements.lock deploy/web-requirements.txt ./
RUN pip install --no-cache-dir -c requirements.lock -r web-requirements.txt
COPY manage.py .
COPY scripts scripts
COPY platform platform
COPY workers workers
COPY optimizer optimizer
COPY frontend frontend
COPY --from=frontend /build/dist frontend/dist
RUN python -c "import sys; sys.path.insert(0, 'scripts'); import catalogue, pathlib; catalogue.compile_all(pathlib.Path('frontend/locale'))"

ENV PYTHONPATH=/srv/fuseworks:/srv/fuseworks/platform \
    DJANGO_SETTINGS_MODULE=fuseworks.settings.production \
    FUSEWORKS_STATE=/var/lib/fuseworks \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# The volume is made with this owner; the process owns nothing else.
RUN install -d -o 65534 -g 65534 /var/lib/fuseworks
USER 65534
EXPOSE 8000
CMD ["uvicorn", "fuseworks.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--no-server-header", "--no-access-log", "--timeout-graceful-shutdown", "30"]
