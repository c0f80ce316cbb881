#!/bin/sh
# Prints the path of a Python that Fuseworks runs on: $PYTHON if set, else the first that fits. Refuses with a reason.
set -u

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; }
# Debian's python3 without python3-venv cannot make an environment that has pip.
makes_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3.11 python3.12 python3.13 python3
fi
without_venv=
for name in "$@"; do
    path=$(command -v "$name" 2>/dev/null) || continue
    fits "$path" || continue
    if makes_environments "$path"; then
        echo "$path"
        exit 0
    fi
    without_venv=${without_venv:-$path}
done

if [ -n "$without_venv" ]; then
    if command -v uv >/dev/null 2>&1; then
        echo "$without_venv"
        exit 0
    fi
    echo "Fuseworks: $without_venv cannot make virtual environments (no ensurepip)." >&2
    echo "  On Debian and Ubuntu install python3-venv; elsewhere a complete Python, or uv." >&2
    exit 1
fi
echo "Fuseworks needs Python 3.11, 3.12 or 3.13; none of these fits: $*." >&2
echo "  Install one, or name it: make PYTHON=/path/to/python3.12 setup" >&2
exit 1
