#!/usr/bin/env bash
# Writes .env: the images of compose.yaml by the digests that their registry has now, and the digest of Grafana's plugin.
#
# What .env has is kept: remove a line to take a newer one. Compare the digests with those of another machine or of the
# publisher before you trust them; from then on nothing else is run.
set -euo pipefail

folder=$(realpath "$(dirname "$0")")
env=$folder/.env
touch "$env"

add() { # NAME VALUE
    printf '%s=%s\n' "$1" "$2" >>"$env"
    echo "pinned $1=$2"
}

# Each ${NAME_IMAGE:-repository:tag} of the project.
grep -o '\${[A-Z]*_IMAGE:-[^}]*}' "$folder/compose.yaml" | tr -d '${}' | while IFS= read -r found; do
    name=${found%%:-*}
    image=${found#*:-}
    if ! grep -q "^$name=" "$env"; then
        digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
        [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "pin.sh: no digest of $image: $digest" >&2; exit 1; }
        add "$name" "$image@$digest"
    fi
done

if ! grep -q '^GRAFANA_PLUGIN_SHA256=' "$env"; then
    version=$(sed -n 's/^ARG PLUGIN_VERSION=//p' "$folder/grafana.Dockerfile")
    arch=$(case "$(uname -m)" in aarch64) echo arm64 ;; *) echo amd64 ;; esac)
    url="https://grafana.com/api/plugins/grafana-clickhouse-datasource/versions/$version/download?os=linux&arch=$arch"
    archive=$(mktemp)
    trap 'rm -f "$archive"' EXIT
    curl --fail --silent --show-error --location --output "$archive" "$url"
    add GRAFANA_PLUGIN_SHA256 "$(sha256sum "$archive" | cut -d ' ' -f 1)"
fi
