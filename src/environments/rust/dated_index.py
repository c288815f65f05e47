"""Runs Cargo on crates.io's index as it was on a day: `dated_index.py CUTOFF UPSTREAM CACHE COMMAND…`.

A server on loopback hands on the entries of the sparse index at UPSTREAM that were published before CUTOFF (seconds since
1970); entries without a time of publication are kept. CACHE holds answers of the upstream index; one that was fetched
after the cut-off says all that there is to say of the time before it. Exits with the command's code, with 96 where the
index could not be reached.
"""

import datetime
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

UNREACHABLE = 96


class Index(object):
    def __init__(self, cutoff, upstream, cache):
        self.cutoff, self.upstream, self.cache = cutoff, upstream.rstrip("/"), cache
        self.is_unreachable = False
        self.context = ssl.create_default_context()

    def fetch(self, path):
        """Returns the upstream's answer; `None`: there is no such package."""
        kept = os.path.join(self.cache, path.strip("/").replace("/", "-"))
        try:
            if os.stat(kept).st_mtime > self.cutoff + 86400:
                with open(kept, "rb") as handle:
                    return handle.read()
        except OSError:
            pass
        for attempt in range(3):
            try:
                with urllib.request.urlopen(self.upstream + path, timeout=60, context=self.context) as answer:
                    content = answer.read()
                break
            except urllib.error.HTTPError as error:
                if error.code in (404, 410, 451):
                    return None
                failure = error
            except OSError as error:
                failure = error
        else:
            self.is_unreachable = True
            sys.stderr.write("failed to download %s: %s\n" % (self.upstream + path, failure))
            return None
        with tempfile.NamedTemporaryFile(dir=self.cache, delete=False) as handle:
            handle.write(content)
        os.replace(handle.name, kept)
        return content

    def dated(self, content):
        kept = []
        for line in content.splitlines():
            time = json.loads(line).get("pubtime")
            if time is None or datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() < self.cutoff:
                kept.append(line)
        return b"\n".join(kept)


def handler(index):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.path == "/config.json":
                content = json.dumps({"dl": "http://127.0.0.1:1/none"}).encode()
            else:
                content = index.fetch(self.path)
                content = content and index.dated(content)
            self.send_response(404 if not content else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_arguments):
            pass

    return Handler


def main():
    cutoff, upstream, cache = sys.argv[1:4]
    index = Index(int(cutoff), upstream, cache)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(index))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = tempfile.mkdtemp()
    with open(os.path.join(home, "config.toml"), "w") as handle:
        handle.write("[source.crates-io]\nreplace-with = 'dated'\n[source.dated]\nregistry = ")
        handle.write("'sparse+http://127.0.0.1:%d/'\n" % server.server_port)
    names = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    code = subprocess.call(sys.argv[4:], env=dict(names, CARGO_HOME=home))
    sys.exit(UNREACHABLE if code and index.is_unreachable else code)


if __name__ == "__main__":
    main()
