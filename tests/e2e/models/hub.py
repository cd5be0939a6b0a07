"""A server that behaves as the Hugging Face Hub, and one as the network that it redirects to. Standard library only.

A Hub has `repos`: {"org/repo": {name: bytes}}. `faults` is a list of functions that may spoil the next replies with a file: each gets
the handler and the body, and returns what to send, or None after it has replied itself."""
import hashlib
import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LFS = (".safetensors", ".gguf", ".bin")


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that are ended


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_file(self, data, hub, **headers):
        """The whole file or what Range asks for, as far as the next fault lets it."""
        begin = 0
        wanted = self.headers.get("Range", "")
        if wanted and not hub.ignores_ranges:
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            if begin >= len(data):
                return self.say(416, Content_Range=f"bytes */{len(data)}")
            headers["Content_Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        body = data[begin:]
        with hub.lock:
            fault = hub.faults.pop(0) if self.command == "GET" and hub.faults else None
        length = len(body)
        if fault:
            body = fault(self, body)
            if body is None:
                return None
        self.send_response(206 if begin or "Content_Range" in headers else 200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            hub.n_sent += len(body)
            if len(body) != length:
                self.close_connection = True
        return None


class Hub:
    def __init__(self):
        self.repos, self.faults, self.seen, self.cdn_seen = {}, [], [], []
        self.private, self.gated, self.commits, self.etags, self.sizes = set(), set(), {}, {}, {}
        self.extra = {}  # names that a list has beyond its files
        self.ignores_ranges, self.api_status = False, []
        self.has_no_revisions = False  # it lists the newest files alone
        self.relative = False  # redirects to a path of the Hub itself
        self.n_sent = 0
        self.lock = threading.Lock()
        self.cdn = self.start(self.cdn_handler())
        self.server = self.start(self.hub_handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.cdn_url = f"http://127.0.0.1:{self.cdn.server_port}"

    @staticmethod
    def start(handler):
        server = Quiet(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def commit(self, repo):
        if repo not in self.commits:
            self.commits[repo] = hashlib.sha1(repo.encode()).hexdigest()
        return self.commits[repo]

    def etag(self, repo, name):
        data = self.repos[repo][name]
        if (repo, name) in self.etags:
            return self.etags[repo, name]
        if name.endswith(LFS):
            return hashlib.sha256(data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def cdn_handler(hub):
        class Cdn(Handler):
            def do_GET(self):
                hub.cdn_seen.append(dict(self.headers))
                digest = urlsplit(self.path).path.split("/")[-1]
                for repo, files in hub.repos.items():
                    for name, data in files.items():
                        if hub.etag(repo, name) == digest:
                            return self.send_file(data, hub, ETag='"another"')
                return self.say(404)

            do_HEAD = do_GET
        return Cdn

    def hub_handler(hub):
        class Main(Handler):
            def may(self, repo):
                """Whether the repository is there for this client; else the Hub's reply."""
                token = self.headers.get("Authorization")
                if repo not in hub.repos or (repo in hub.private and token != "Bearer hf_right"):
                    self.say(404 if token == "Bearer hf_right" else 401, b"{}", X_Error_Code="RepoNotFound",
                             X_Error_Message="Repository not found")
                    return False
                return True

            def do_GET(self):
                path = unquote(urlsplit(self.path).path)
                hub.seen.append((self.command, path, dict(self.headers)))
                parts = path.strip("/").split("/")
                if parts[:2] == ["api", "models"]:
                    return self.api("/".join(parts[2:4]), parts[4:])
                if parts[0] == "cdn":
                    return self.cdn(parts[-1])
                if len(parts) > 4 and parts[2] == "resolve":
                    return self.resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
                return self.say(404)

            do_HEAD = do_GET

            def cdn(self, digest):
                for repo, files in hub.repos.items():
                    for name, data in files.items():
                        if hub.etag(repo, name) == digest:
                            return self.send_file(data, hub, ETag='"another"')
                return self.say(404)

            def entry(self, repo, name):
                data = hub.repos[repo][name]
                lfs = {"lfs": {"oid": hub.etag(repo, name), "size": len(data), "pointerSize": 134}} if name.endswith(LFS) else {}
                return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest(), **lfs}

            def api(self, repo, rest):
                with hub.lock:
                    status = hub.api_status.pop(0) if hub.api_status else None
                if status:
                    return self.say(status[0], b"{}", **status[1])
                if not self.may(repo):
                    return None
                if rest[:1] == ["tree"]:
                    return self.say(200, json.dumps([self.entry(repo, name) for name in hub.repos[repo]]).encode())
                if hub.has_no_revisions and rest:
                    return self.say(404)
                if rest and (rest[0] != "revision" or rest[1] not in ("main", "old", hub.commit(repo))):
                    return self.say(404, b"{}", X_Error_Code="RevisionNotFound", X_Error_Message="Invalid rev id")
                names = [*hub.repos[repo], *hub.extra.get(repo, [])]
                answer = {"id": repo, "modelId": repo, "sha": hub.commit(repo), "siblings": [{"rfilename": n} for n in names]}
                return self.say(200, json.dumps(answer).encode(), Content_Type="application/json")

            def resolve(self, repo, revision, name):
                if not self.may(repo):
                    return None
                if repo in hub.gated:
                    return self.say(403, b"{}", X_Error_Code="GatedRepo", X_Error_Message="Access to this model is restricted")
                if revision not in ("main", hub.commit(repo)) or name not in hub.repos[repo]:
                    return self.say(404, b"{}", X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
                data, etag = hub.repos[repo][name], hub.etag(repo, name)
                headers = {"X_Repo_Commit": hub.commit(repo), "ETag": f'"{etag}"'}
                if not name.endswith(LFS):
                    return self.send_file(data, hub, **headers)
                where = f"/cdn/{etag}" if hub.relative else f"{hub.cdn_url}/{etag}?signature=x"
                return self.say(302, X_Linked_Etag=f'"{etag}"', X_Linked_Size=str(hub.sizes.get((repo, name), len(data))),
                                Location=where, **headers)
        return Main


def cut_after(n):
    """A reply that ends after n bytes of its body."""
    return lambda handler, body: body[:n]


def status(code, **headers):
    """A reply with that status in place of the file."""
    def fault(handler, body):
        handler.say(code, b"", **headers)
    return fault


def slowly(seconds, n=20):
    """A reply in n pieces, so that somebody can interrupt it."""
    import time

    def fault(handler, body):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        step = len(body) // n + 1
        for at in range(0, len(body), step):
            handler.wfile.write(body[at:at + step])
            handler.wfile.flush()
            time.sleep(seconds / n)
    return fault


def noise(n, seed):
    return random.Random(seed).randbytes(n)
