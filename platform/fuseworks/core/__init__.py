"""What all apps share: discovery of pages, security headers, health checks, system checks."""
