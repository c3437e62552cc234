#!/bin/sh
# Two organisations and a server on this machine, each a process with its own kit: deploy/demo-federation.sh FOLDER
set -eu
mkdir "$1" && cd "$1"
# Tables, schemas, party files and a job of a clinic and a laboratory.
colonnade demo --people few --output files > /dev/null
colonnade federation new kits --party clinic --party laboratory --port "${PORT:-8002}"
trap 'kill $members 2> /dev/null || true; wait' EXIT
trap 'exit 130' INT TERM
colonnade party start kits/server &
members=$!
for party in clinic laboratory; do
    cat > "$party.policy.toml" << END
methods = ["moments"]
parties = ["clinic", "laboratory"]
delta = 1e-5
alignment = ["auto", "server"]
[epsilon]
"*" = 3.0
END
    colonnade party start "kits/$party" --party "files/$party.toml" --policy "$party.policy.toml" &
    members="$members $!"
done
for party in clinic laboratory; do
    for _ in $(seq 90); do
        colonnade party health "kits/$party" > /dev/null && break
        sleep 1
    done
done
colonnade job submit files/job.toml --kit kits/admin --wait
for party in clinic laboratory; do
    colonnade runs --kit "kits/$party"
    colonnade ledger "files/$party.toml"
done
