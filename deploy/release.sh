#!/usr/bin/env bash
# Build a release of the committed tree, try its wheel in an empty environment, and tag it.
#
#   deploy/release.sh 0.2.0
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?which version, such as 0.2.0}
if [ -n "$(git status --porcelain)" ]; then
  echo "the tree has changes that are not committed; commit or put them away" >&2
  exit 1
fi
found=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/colonnade/__init__.py)
if [ "$found" != "$version" ] || ! grep -q "^## \[$version\] - " CHANGELOG.md || ! grep -q "^version: $version$" CITATION.cff; then
  echo "asked for $version; __init__.py says $found. Put $version into __init__.py and CITATION.cff, and its date into CHANGELOG.md" >&2
  exit 1
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
python3 -m venv "$built/build"
"$built/build/bin/pip" install --quiet build
"$built/build/bin/python" -m build --outdir dist . >/dev/null
python3 -m venv "$built/empty"
"$built/empty/bin/pip" install --quiet --constraint constraints.txt "dist/colonnade-$version-py3-none-any.whl"
(cd "$built" && "$built/empty/bin/colonnade" --version && "$built/empty/bin/colonnade" demo --output demo >/dev/null)
git tag -a "v$version" -m "Colonnade $version"
echo "dist/ has the wheel and the sources of $version, and v$version is tagged. Push the tag and upload dist/."
