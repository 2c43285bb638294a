#!/usr/bin/env bash
# Install the real servers that tests run against, where they are missing: Postgres, Redis, SoftHSM, Chromium, Node, bubblewrap, curl,
# Prometheus' promtool and nghttp2's headers from Debian, and the OpenID provider from npm; with `containers`, podman and what images are made of; with `java`,
# what Spark runs on. Full
# and slow disks are feigned by small C libraries, which gcc builds. Does nothing, quickly, when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

have() { command -v "$1" >/dev/null 2>&1; }

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || have initdb || missing+=(postgresql)
have softhsm2-util || missing+=(softhsm2)
have chromium || have google-chrome || missing+=(chromium)
have chromedriver || missing+=(chromium-driver)
have node || missing+=(nodejs)
have npm || missing+=(npm)
have gcc || missing+=(gcc libc6-dev)
have redis-server || have valkey-server || missing+=(redis-server)
have bwrap || missing+=(bubblewrap)
have curl || missing+=(curl)
have promtool || missing+=(prometheus)
if [[ " $* " == *" containers "* ]]; then
    have podman || missing+=(podman)
    have runc || missing+=(runc)
    have busybox || missing+=(busybox-static)
fi
if [[ " $* " == *" java "* ]]; then
    have java || missing+=(default-jre-headless)
fi
[ -e /usr/include/nghttp2/nghttp2.h ] || missing+=(libnghttp2-dev)

if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
    if ! have apt-get || { [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; }; then
        echo "The tests need these Debian packages, and this user cannot install them: ${missing[*]}" >&2
        echo "Ask an administrator for: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "installing from Debian: ${missing[*]}"
    # Postgres must not start a cluster of its own: the tests start theirs. Nor must any other service be started: RUNLEVEL=1.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" mkdir -p /etc/postgresql-common &&
        { [ -e /etc/postgresql-common/createcluster.conf ] ||
            echo 'create_main_cluster = false' | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf; } &&
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -20 "$log" >&2
        exit 1
    fi
    rm -f "$log"
fi

provider=tests/servers/oidc
if [ ! -e $provider/node_modules/.package-lock.json ] || [ $provider/package-lock.json -nt $provider/node_modules/.package-lock.json ]; then
    echo "installing the OpenID provider from npm"
    npm ci --prefix $provider --silent --no-audit --no-fund
    touch $provider/node_modules/.package-lock.json
fi
