#!/bin/sh
# Installs the peers, in pinned versions, into the folder given.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/typescript"
into=$(cd "$1" && pwd)
python3 -m venv "$into/python"
"$into/python/bin/pip" install --quiet --requirement "$here/python/requirements.txt"
cp "$here"/typescript/* "$into/typescript"
cd "$into/typescript"
npm ci --silent --no-audit --no-fund
mkdir -p "$into/java"
mvn --batch-mode --quiet --file "$here/java/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies \
  -DoutputDirectory="$into/java" -DincludeScope=runtime
javac -cp "$into/java/*" -d "$into/java" "$here/java/Peer.java"
