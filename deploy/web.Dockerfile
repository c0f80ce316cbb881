# The web site's image: Django alone. No torch and no engine, by the import rules; runs are the workers' work.
FROM python:3.13-slim

WORKDIR /srv/fuseworks
COPY requirements.lock .
RUN pip install --no-cache-dir -c requirements.lock django uvicorn whitenoise
COPY manage.py .
COPY platform platform
COPY frontend frontend

ENV PYTHONPATH=/srv/fuseworks/platform \
    DJANGO_SETTINGS_MODULE=fuseworks.settings.production \
    PYTHONDONTWRITEBYTECODE=1
USER 65534
EXPOSE 8000
CMD ["uvicorn", "fuseworks.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--no-server-header"]
