#!/usr/bin/env python3
"""Measures servers that speak OpenAI's API: how many tokens a second they make for 1, 8 or more clients at
once, and how long a client waits for them. Needs Python 3.11 and nothing else.

usage: tests/bench/serve.py [--url [NAME=]URL]... [--clients 1,8] [--requests R] [--rounds K] [--prompt P]
                            [--tokens M] [--chat] [--json FILE]
       tests/bench/serve.py --prefix N [--url [NAME=]URL]... [--requests R] [--rounds K]

Each client sends its requests one after another over one connection. All are streamed, with temperature 0 and
without an end before M tokens. Prompts are random token ids, and no two are alike, so no prefix cache helps;
with --chat they are random words, about one token each. The same --seed makes the same prompts: a server that
has seen them may know them still, so without --seed every run has others.

What is measured:
  TTFT      from writing the request to the first event with a token; connecting is not part of it
  ITL       every gap between two events with tokens; of events that arrive together it is 0
  TPOT      of a request: (end - first token) / (tokens - 1); the end is the last event of its text
  E2E       of a request: from writing it to the end of the reply (only in the file of --json)
  total     the tokens of all requests / the time from the first one's begin to the last one's end
  together  the tokens that come while every client receives some / that time: no prompt is part of it, as in
            the figures of `clef bench --batch`
  one       the tokens of all requests / the sum of their E2E: what one client sees
Tokens are those of usage.completion_tokens; of a server that does not report them, the events. Failed requests
count for nothing but the column "failed". The total counts the end of a round too, when some clients have
nothing left to do: with more requests for each client it matters less. A request on a connection that the
server has closed after the reply before is sent again on a new one, as HTTP clients do.

Every server and number of clients is warmed up first. Each of the --rounds then runs all of them, every
second round in the opposite order, so that noise hits all alike. The numbers are those of all rounds
together; behind a ratio are the least and the greatest one of a single round.

--prefix N sends prompts that begin with the same N ids and end with 8 of their own, by one client, and reports
how much sooner the first token comes once the server has seen the prefix. Each round has another prefix.

The table goes to stdout, progress and errors to stderr. Exit code: 0; 1 if a request failed; 2: wrong usage.
"""
import argparse
import asyncio
import gc
import json
import random
import re
import signal
import ssl
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

OWN_IDS = 8  # ids that each prompt of --prefix has for itself
MOST_HEAD = 1 << 16  # bytes
NO_REPLY = "the server closed the connection without a reply"
WORDS = ("and the you that was for are with his they this have from one had word but not what all were "
         "when your can said there use each which she how their will other about out many then them "
         "these some her would make like him into time has look two more write see number way could "
         "people than first water been call who oil now find long down day did get come made may").split()

Clock = time.perf_counter


@dataclass(frozen=True)
class Server:
    name: str
    host: str
    port: int
    secure: bool
    path: str  # before /v1, mostly nothing
    model: str | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass
class Reply:
    """The reply to one request, as it arrived. It is parsed after the measurement."""
    began: float
    ended: float = 0.0
    status: int = 0
    is_stream: bool = False
    keeps: bool = True  # the connection can be used again
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    problem: str = ""


@dataclass
class Sample:
    """The numbers of one request, in seconds."""
    began: float
    ended: float
    problem: str = ""
    tokens: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    token_times: list[float] = field(default_factory=list)
    text_end: float = 0.0

    @property
    def ttft(self) -> float:
        return self.token_times[0] - self.began

    @property
    def e2e(self) -> float:
        return self.ended - self.began

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in zip(self.token_times, self.token_times[1:])]

    @property
    def tpot(self) -> float | None:
        return (self.text_end - self.token_times[0]) / (self.tokens - 1) if self.tokens > 1 else None


class Connection(asyncio.Protocol):
    """One connection over HTTP/1.1. It notes the time of each piece of a reply and looks at nothing but the
    frame around it, so that the client takes little of the cores that it may share with the server."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.buffer = bytearray()
        self.reply: Reply | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.read: Callable[[float], bool] = self.read_head
        self.left = 0  # bytes of the body
        self.usable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        now = Clock()
        if self.waiter is None:
            self.close()  # nobody asked
            return
        self.buffer += data
        try:
            while self.waiter and self.read(now):
                pass
        except (ValueError, IndexError):
            self.end(now, "the reply is not HTTP/1.1")

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        if self.waiter is None:
            return
        if self.read == self.read_rest and error is None:
            self.end(Clock())
        elif self.reply.status or self.buffer:
            self.end(Clock(), "the server closed the connection before the end of the reply")
        else:
            self.end(Clock(), NO_REPLY)

    async def ask(self, request: bytes, timeout: float) -> Reply:
        self.buffer.clear()
        self.read = self.read_head
        self.waiter = asyncio.get_running_loop().create_future()
        self.reply = Reply(Clock())
        self.transport.write(request)
        try:
            await asyncio.wait_for(self.waiter, timeout)
        except TimeoutError:
            if self.waiter:
                self.end(Clock(), f"no whole reply within {timeout:g} s")
        return self.reply

    def end(self, now: float, problem: str = "") -> bool:
        self.reply.ended, self.reply.problem = now, problem
        if problem or not self.reply.keeps or self.buffer:
            self.close()
        if not self.waiter.done():
            self.waiter.set_result(None)
        self.waiter = None
        return False

    def close(self) -> None:
        self.usable = False
        self.transport.abort()

    def take(self, n: int) -> bytes:
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    # Each of these takes one part out of the buffer. False: it is not whole yet, or the reply has ended.

    def read_head(self, now: float) -> bool:
        at = self.buffer.find(b"\r\n\r\n")
        if at < 0:
            if len(self.buffer) > MOST_HEAD:
                raise ValueError
            return False
        first, *lines = self.take(at + 4).decode("latin-1").strip().split("\r\n")
        version, status = first.split(" ")[:2]
        if not version.startswith("HTTP/1."):
            raise ValueError
        if 100 <= int(status) < 200:
            return True  # the real head follows
        parts = [line.partition(":") for line in lines]
        fields = {name.strip().lower(): value.strip() for name, _, value in parts}
        self.reply.status = int(status)
        self.reply.is_stream = "event-stream" in fields.get("content-type", "").lower()
        kept = fields.get("connection", "").lower()
        self.reply.keeps = "keep-alive" in kept if version == "HTTP/1.0" else "close" not in kept
        if "chunked" in fields.get("transfer-encoding", "").lower():
            self.read = self.read_chunk
        elif "content-length" in fields:
            self.left = int(fields["content-length"])
            self.read = self.read_counted
            return True if self.left else self.end(now)
        else:
            self.reply.keeps = False
            self.read = self.read_rest
        return True

    def read_chunk(self, now: float) -> bool:
        at = self.buffer.find(b"\r\n")
        if at < 0:
            if len(self.buffer) > MOST_HEAD:
                raise ValueError
            return False
        size = int(self.buffer[:at].split(b";")[0], 16)
        if size == 0:
            del self.buffer[:at + 2]
            self.read = self.read_trailer
            return True
        end = at + 2 + size
        if len(self.buffer) < end + 2:
            return False
        if self.buffer[end:end + 2] != b"\r\n":
            raise ValueError
        self.reply.pieces.append((now, bytes(self.buffer[at + 2:end])))
        del self.buffer[:end + 2]
        return True

    def read_trailer(self, now: float) -> bool:
        at = self.buffer.find(b"\r\n")
        if at < 0:
            return False
        del self.buffer[:at + 2]
        return True if at else self.end(now)

    def read_counted(self, now: float) -> bool:
        data = self.take(min(self.left, len(self.buffer)))
        self.left -= len(data)
        if data:
            self.reply.pieces.append((now, data))
        return False if self.left else self.end(now)

    def read_rest(self, now: float) -> bool:
        if self.buffer:
            self.reply.pieces.append((now, self.take(len(self.buffer))))
        return False


async def connect(server: Server, timeout: float) -> Connection:
    context = ssl.create_default_context() if server.secure else None
    opening = asyncio.get_running_loop().create_connection(Connection, server.host, server.port, ssl=context)
    return (await asyncio.wait_for(opening, timeout))[1]


async def try_connect(server: Server, timeout: float) -> Connection | Reply:
    """A connection, or a reply that says why there is none."""
    began = Clock()
    try:
        return await connect(server, timeout)
    except TimeoutError:
        return Reply(began, Clock(), problem=f"no connection within {timeout:g} s")
    except OSError as e:
        return Reply(began, Clock(), problem=f"no connection: {e.strerror or e}")


async def run_client(server: Server, connection: Connection | Reply, requests: list[bytes],
                     timeout: float) -> list[Reply]:
    """Sends the requests one after another; connects again where the server has closed the connection."""
    replies = []
    for request in requests:
        was_used = bool(replies) and isinstance(connection, Connection) and connection.usable
        reply = await connection.ask(request, timeout) if was_used else None
        if reply is None or reply.problem == NO_REPLY:
            if not isinstance(connection, Connection) or not connection.usable:
                connection = await try_connect(server, timeout)
            failed = isinstance(connection, Reply)
            reply = connection if failed else await connection.ask(request, timeout)
        replies.append(reply)
    if isinstance(connection, Connection):
        connection.close()
    return replies


async def run_clients(server: Server, work: list[list[bytes]],
                      timeout: float) -> tuple[list[list[Reply]], float]:
    """One client for each list of requests, all at once; they are connected before the first one begins. Also
    the processor time that they took."""
    connections = await asyncio.gather(*(try_connect(server, timeout) for _ in work))
    gc.collect()
    gc.disable()
    cpu = time.process_time()
    try:
        clients = (run_client(server, c, requests, timeout) for c, requests in zip(connections, work))
        return await asyncio.gather(*clients), time.process_time() - cpu
    finally:
        gc.enable()


# Reading replies


def message_of(body: bytes) -> str:
    """What an error's body says, in one short line."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict):
        value = value.get("error") or value.get("message") or value.get("detail")
        value = value.get("message") if isinstance(value, dict) else value
    return " ".join(str(value if value else text).split())[:200] or "no message"


def events_of(pieces: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The data of each server-sent event, and when its end arrived."""
    rest, data = b"", []
    for now, piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield now, b"\n".join(data)
                data = []


def has_token(choice: dict[str, Any]) -> bool:
    """An empty text still stands for a token, whose text comes later; not beside a role or the finish."""
    delta = choice.get("delta") or {}
    kinds = ("content", "reasoning_content", "reasoning", "tool_calls")
    if choice.get("text") or any(delta.get(kind) for kind in kinds):
        return True
    return not choice.get("finish_reason") and "role" not in delta


def read_events(reply: Reply, sample: Sample) -> str:
    """Fills the sample. Returns what is wrong, or nothing."""
    usage: dict[str, Any] = {}
    done = False
    for now, data in events_of(reply.pieces):
        if data == b"[DONE]":
            done = True
            continue
        event = json.loads(data)
        if event.get("error"):
            return f"an error in the stream: {message_of(data)}"
        usage = event.get("usage") or usage
        if event.get("choices"):
            sample.text_end = now
            if has_token(event["choices"][0]):
                sample.token_times.append(now)
    if not done:
        return "the stream ended without [DONE]"
    if not sample.token_times:
        return "a stream without tokens"
    reported = usage.get("completion_tokens")
    sample.tokens = len(sample.token_times) if reported is None else reported
    sample.prompt_tokens = usage.get("prompt_tokens")
    sample.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return ""


def sample_of(reply: Reply) -> Sample:
    sample = Sample(reply.began, reply.ended, reply.problem)
    body = b"".join(data for _, data in reply.pieces)
    if sample.problem:
        return sample
    if reply.status != 200:
        sample.problem = f"status {reply.status}: {message_of(body)}"
    elif not reply.is_stream:
        sample.problem = f"no event stream, but: {message_of(body)}"
    else:
        try:
            sample.problem = read_events(reply, sample)
        except (ValueError, AttributeError, LookupError, TypeError):
            sample.problem = "the stream has an event that is not JSON, or of another form"
    return sample


# Making requests


def request_of(server: Server, options: argparse.Namespace, method: str, path: str,
               body: bytes = b"") -> bytes:
    head = [f"{method} {server.path}{path} HTTP/1.1", f"Host: {server.address}", "Accept: */*"]
    if options.api_key:
        head.append(f"Authorization: Bearer {options.api_key}")
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(head + ["", ""]).encode("latin-1") + body


def completion_of(server: Server, options: argparse.Namespace, ids: list[int]) -> bytes:
    body: dict[str, Any] = {"model": server.model} if server.model else {}
    if options.chat:
        text = " ".join(WORDS[i % len(WORDS)] for i in ids)
        body["messages"] = [{"role": "user", "content": text}]
    else:
        body["prompt"] = ids
    body |= {"max_tokens": options.tokens, "temperature": 0, "ignore_eos": True, "stream": True,
             "stream_options": {"include_usage": True}}
    path = "/v1/chat/completions" if options.chat else "/v1/completions"
    return request_of(server, options, "POST", path, json.dumps(body).encode())


def draw_ids(options: argparse.Namespace, n: int) -> list[int]:
    return options.random.choices(range(options.id_min, options.id_max), k=n)


async def find_model(server: Server, options: argparse.Namespace) -> str | None:
    """The first model that the server lists. None: it does not say, and may need no name."""
    connection = await try_connect(server, options.timeout)
    if isinstance(connection, Reply):
        return None
    reply = await connection.ask(request_of(server, options, "GET", "/v1/models"), options.timeout)
    connection.close()
    try:
        return json.loads(b"".join(data for _, data in reply.pieces))["data"][0]["id"]
    except (ValueError, LookupError, TypeError):
        return None


# Running


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass
class Case:
    """One server with one number of clients, and what was measured in all rounds."""
    server: Server
    clients: int
    rounds: list[list[Sample]] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)
    requests: int = 0  # of the measured ones
    failed: int = 0
    own_seconds: float = 0.0  # processor time of this client

    @property
    def name(self) -> str:
        return f"{self.server.name}, {self.clients} client{'s' if self.clients > 1 else ''}"

    @property
    def samples(self) -> list[Sample]:
        return [sample for samples in self.rounds for sample in samples]

    @property
    def wall(self) -> float:
        return sum(map(wall_of, self.rounds))

    @property
    def total(self) -> float:
        return self.tokens / self.wall if self.wall else 0.0

    @property
    def together(self) -> float | None:
        parts = [together_of(samples, self.clients) for samples in self.rounds]
        seconds = sum(part[1] for part in parts)
        return sum(part[0] for part in parts) / seconds if seconds else None

    @property
    def tokens(self) -> int:
        return sum(s.tokens for s in self.samples if not s.problem)


def wall_of(samples: list[Sample]) -> float:
    return max(s.ended for s in samples) - min(s.began for s in samples) if samples else 0.0


def total_of(samples: list[Sample]) -> float:
    wall = wall_of(samples)
    return sum(s.tokens for s in samples if not s.problem) / wall if wall else 0.0


def together_of(samples: list[Sample], clients: int) -> tuple[int, float]:
    """The tokens that arrived while all clients received some, and how long that was."""
    good = [s for s in samples if not s.problem]
    ends = sorted([(s.token_times[0], 1) for s in good] + [(s.text_end, -1) for s in good])
    tokens, seconds, receiving, since = 0, 0.0, 0, 0.0
    for now, change in ends:
        if receiving == clients:
            tokens += sum(since < t <= now for s in good for t in s.token_times)
            seconds += now - since
        receiving, since = receiving + change, now
    return tokens, seconds


def prompts_of(case: Case, options: argparse.Namespace, n: int) -> list[list[list[int]]]:
    """n prompts for each client."""
    if options.prefix:
        prefix = draw_ids(options, options.prefix)
        return [[prefix + draw_ids(options, OWN_IDS) for _ in range(n)]]
    return [[draw_ids(options, options.prompt) for _ in range(n)] for _ in range(case.clients)]


async def run_case(case: Case, options: argparse.Namespace, n: int) -> list[Sample]:
    prompts = prompts_of(case, options, n)
    work = [[completion_of(case.server, options, ids) for ids in own] for own in prompts]
    replies, cpu = await run_clients(case.server, work, options.timeout)
    case.own_seconds += cpu
    return [sample_of(reply) for own in replies for reply in own]


async def warm_up(case: Case, options: argparse.Namespace) -> None:
    """The first request of each client; of --prefix two, as the second one takes other ways."""
    say(f"warm-up: {case.name}")
    for sample in await run_case(case, options, 2 if options.prefix else 1):
        if sample.problem:
            case.problems[f"warm-up: {sample.problem}"] += 1
    case.own_seconds = 0.0


async def measure(case: Case, options: argparse.Namespace, which: str) -> None:
    samples = await run_case(case, options, options.requests)
    failed = sum(bool(s.problem) for s in samples)
    case.rounds.append(samples)
    case.requests += len(samples)
    case.failed += failed
    case.problems.update(s.problem for s in samples if s.problem)
    say(f"{which}: {case.name}: {total_of(samples):.1f} tokens/s, {failed} of {len(samples)} failed")


async def run_all(options: argparse.Namespace) -> list[Case]:
    servers = []
    for s in options.url or [server_of("http://127.0.0.1:8080")]:
        model = options.model or await find_model(s, options)
        servers.append(Server(s.name, s.host, s.port, s.secure, s.path, model))
    cases = [Case(server, n) for n in options.clients for server in servers]
    for case in cases:
        await warm_up(case, options)
    for k in range(options.rounds):
        for case in cases if k % 2 == 0 else reversed(cases):
            await measure(case, options, f"round {k + 1} of {options.rounds}")
    return sorted(cases, key=lambda c: servers.index(c.server))


# Telling


def percentile(values: list[float], p: float) -> float:
    """Between two values by their distance."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * p / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread_of(seconds: list[float]) -> dict[str, float | None]:
    """Mean and percentiles, in ms."""
    if not seconds:
        return {"mean": None, "p50": None, "p99": None}
    return {"mean": statistics.fmean(seconds) * 1e3, "p50": percentile(seconds, 50) * 1e3,
            "p99": percentile(seconds, 99) * 1e3}


def mean_of(values: list[int | None]) -> float | None:
    reported = [v for v in values if v is not None]
    return statistics.fmean(reported) if reported else None


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def times_of(samples: list[Sample]) -> dict[str, dict[str, float | None]]:
    return {
        "ttft_ms": spread_of([s.ttft for s in samples]),
        "itl_ms": spread_of([gap for s in samples for gap in s.gaps]),
        "tpot_ms": spread_of([s.tpot for s in samples if s.tpot is not None]),
        "e2e_ms": spread_of([s.e2e for s in samples]),
    }


def row_of(case: Case) -> dict[str, Any]:
    good = [s for s in case.samples if not s.problem]
    return {
        "server": case.server.name,
        "model": case.server.model,
        "clients": case.clients,
        "requests": case.requests,
        "failed": case.failed,
        "prompt_tokens": mean_of([s.prompt_tokens for s in good]),
        "cached_tokens": mean_of([s.cached_tokens for s in good]),
        "tokens": case.tokens,
        "wall_s": case.wall,
        "total_tokens_per_s": case.total,
        "total_tokens_per_s_of_rounds": [total_of(samples) for samples in case.rounds],
        "together_tokens_per_s": case.together,
        "client_tokens_per_s": ratio(float(case.tokens), sum(s.e2e for s in good)),
        **times_of(good),
        "own_cpu_share": ratio(case.own_seconds, case.wall),
    }


def prefix_row_of(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    whole = [samples for samples in case.rounds if not samples[0].problem]
    first = [samples[0] for samples in whole]
    later = [s for samples in whole for s in samples[1:] if not s.problem]
    first_ms, later_ms = spread_of([s.ttft for s in first]), spread_of([s.ttft for s in later])
    return {
        "server": case.server.name,
        "model": case.server.model,
        "prefix": options.prefix,
        "requests": case.requests,
        "failed": case.failed,
        "prompt_tokens": mean_of([s.prompt_tokens for s in first + later]),
        "first_cached_tokens": mean_of([s.cached_tokens for s in first]),
        "later_cached_tokens": mean_of([s.cached_tokens for s in later]),
        "first_ttft_ms": first_ms,
        "later_ttft_ms": later_ms,
        "first_over_later": ratio(first_ms["p50"], later_ms["p50"]),
    }


def round_ratios(a: dict[str, Any], b: dict[str, Any]) -> list[float]:
    key = "total_tokens_per_s_of_rounds"
    return [x / y for x, y in zip(a[key], b[key]) if y]


def new_ratio(what: str, value: float | None, of_rounds: list[float]) -> dict[str, Any]:
    return {"what": what, "ratio": value, "least": min(of_rounds, default=None),
            "greatest": max(of_rounds, default=None)}


def ratios_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each server: more clients to the fewest. Of each number of clients: the first server to others."""
    found = []
    for name in dict.fromkeys(row["server"] for row in rows):
        fewest, *more = sorted((r for r in rows if r["server"] == name), key=lambda r: r["clients"])
        for row in more:
            found.append(new_ratio(f"{name}: total with {row['clients']} / total with {fewest['clients']}",
                                   ratio(row["total_tokens_per_s"], fewest["total_tokens_per_s"]),
                                   round_ratios(row, fewest)))
    for n in dict.fromkeys(row["clients"] for row in rows):
        one, *others = [r for r in rows if r["clients"] == n]
        for other in others:
            what = f"with {n}: {one['server']} / {other['server']}:"
            total = ratio(one["total_tokens_per_s"], other["total_tokens_per_s"])
            found.append(new_ratio(f"{what} total", total, round_ratios(one, other)))
            for key, title in (("ttft_ms", "TTFT p50"), ("tpot_ms", "TPOT p50")):
                found.append(new_ratio(f"{what} {title}", ratio(one[key]["p50"], other[key]["p50"]), []))
    return found


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table_of(lines: list[list[str]], groups: list[tuple[str, int]]) -> str:
    """Columns as wide as they need, the first one to the left; above them groups of so many columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    at, above = 0, ""
    for title, n in groups:
        width = sum(widths[at:at + n]) + 2 * (n - 1)
        if len(title) > width:
            widths[at] += len(title) - width
            width = len(title)
        above += ("  " if at else "") + title.rjust(width)
        at += n
    text = ["  ".join([line[0].ljust(widths[0])] + [cell.rjust(w) for cell, w in zip(line[1:], widths[1:])])
            for line in lines]
    return "\n".join(line.rstrip() for line in [above, *text])


def main_table(rows: list[dict[str, Any]]) -> str:
    head = ["server", "clients", "requests", "failed", "prompt", "total", "together", "one"]
    lines = [head + ["mean", "p50", "p99"] * 3]
    for r in rows:
        times = [number(x) for key in ("ttft_ms", "itl_ms", "tpot_ms") for x in r[key].values()]
        lines.append([r["server"], str(r["clients"]), str(r["requests"]), str(r["failed"]),
                      number(r["prompt_tokens"], 0), number(r["total_tokens_per_s"], 1),
                      number(r["together_tokens_per_s"], 1), number(r["client_tokens_per_s"], 1), *times])
    groups = [("", 1)] * 5 + [("tokens/s", 3), ("TTFT ms", 3), ("ITL ms", 3), ("TPOT ms", 3)]
    return table_of(lines, groups)


def prefix_table(rows: list[dict[str, Any]]) -> str:
    head = ["server", "requests", "failed", "prompt", "cached"]
    lines = [head + ["mean", "p50"] * 2 + ["first / later"]]
    for r in rows:
        keys = ("first_ttft_ms", "later_ttft_ms")
        times = [number(r[key][which]) for key in keys for which in ("mean", "p50")]
        lines.append([r["server"], str(r["requests"]), str(r["failed"]), number(r["prompt_tokens"], 0),
                      number(r["later_cached_tokens"], 0), *times, number(r["first_over_later"])])
    groups = [("", 1)] * 4 + [("later", 1), ("first TTFT ms", 2), ("later TTFT ms", 2), ("p50", 1)]
    return table_of(lines, groups)


def ratio_lines(ratios: list[dict[str, Any]]) -> str:
    width = max(len(r["what"]) for r in ratios)
    lines = []
    for r in ratios:
        ends = "" if r["least"] == r["greatest"] else f"  ({number(r['least'])} to {number(r['greatest'])})"
        lines.append(f"{r['what'].ljust(width)}  {number(r['ratio']).rjust(6)}{ends}")
    return "\n".join(lines)


def tell_doubts(cases: list[Case], options: argparse.Namespace) -> None:
    """What makes numbers worth less, though nothing failed."""
    for case in cases:
        good = [s for s in case.samples if not s.problem]
        short = sum(s.tokens != options.tokens for s in good)
        known = sum((s.cached_tokens or 0) > (s.prompt_tokens or 0) / 8 for s in good)
        share = ratio(case.own_seconds, case.wall) if good else None
        if short:
            say(f"note: {case.name}: {short} of {len(good)} texts have not {options.tokens} tokens")
        if known and not options.prefix:
            say(f"note: {case.name}: the prefix cache held over an eighth of {known} of {len(good)} prompts")
        if share and share > 0.25:
            say(f"note: {case.name}: this client itself took {100 * share:.0f} % of a core")


def tell_problems(cases: list[Case]) -> bool:
    for case in cases:
        for problem, n in case.problems.most_common():
            say(f"failed: {case.name}: {n} × {problem}")
    return any(case.problems for case in cases)


def write_json(options: argparse.Namespace, result: dict[str, Any]) -> None:
    with open(options.json, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=2)
        f.write("\n")


def settings_of(options: argparse.Namespace, cases: list[Case]) -> dict[str, Any]:
    names = ["clients", "requests", "rounds", "prompt", "prefix", "tokens", "chat", "id_min", "id_max",
             "seed", "timeout"]
    urls = {c.server.name: f"http{'s' * c.server.secure}://{c.server.address}{c.server.path}" for c in cases}
    return {"servers": urls, **{name: getattr(options, name) for name in names}}


def tell(options: argparse.Namespace, cases: list[Case]) -> int:
    rows = [prefix_row_of(case, options) if options.prefix else row_of(case) for case in cases]
    ratios = [] if options.prefix else ratios_of(rows)
    print(prefix_table(rows) if options.prefix else main_table(rows))
    if ratios:
        print("\n" + ratio_lines(ratios))
    sys.stdout.flush()
    tell_doubts(cases, options)
    failed = tell_problems(cases)
    if options.json:
        problems = [{"server": c.server.name, "clients": c.clients, "problem": problem, "count": n}
                    for c in cases for problem, n in c.problems.most_common()]
        write_json(options, {"settings": settings_of(options, cases), "rows": rows, "ratios": ratios,
                             "failures": problems})
    return int(failed)


# Options


def server_of(text: str) -> Server:
    name, url = re.fullmatch(r"(?:([^=/:]+)=)?(.*)", text, re.S).groups()
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"'{url}': {e}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise argparse.ArgumentTypeError(f"'{text}': expected [NAME=]http://HOST:PORT")
    secure = parts.scheme == "https"
    path = parts.path.rstrip("/").removesuffix("/v1")
    return Server(name or parts.netloc, parts.hostname, port or (443 if secure else 80), secure, path)


def count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}': expected a number from 1")
    return int(text)


def counts(text: str) -> list[int]:
    return list(dict.fromkeys(count(part) for part in text.split(",")))


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"'{text}': expected seconds, more than 0")
    return value


def new_parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
                                usage="serve.py [FLAGS]", description=__doc__.split("\n\nusage:")[0],
                                epilog=__doc__.split("\n\n", 2)[2])
    p.add_argument("--url", type=server_of, action="append", metavar="[NAME=]URL",
                   help="a server; may be repeated [http://127.0.0.1:8080]")
    p.add_argument("--clients", type=counts, metavar="N,N", help="numbers of clients [1,8]")
    p.add_argument("--requests", type=count, metavar="R",
                   help="requests of each client in a round [4; with --prefix 2, the least]")
    p.add_argument("--rounds", type=count, default=1, metavar="K",
                   help="how often all is run, interleaved [1]")
    p.add_argument("--prompt", type=count, metavar="P", help="tokens of a prompt [64]")
    p.add_argument("--prefix", type=count, metavar="N",
                   help="measure a prefix of N tokens that prompts share")
    p.add_argument("--tokens", type=count, default=64, metavar="M", help="tokens to generate [64]")
    p.add_argument("--chat", action="store_true", help="use /v1/chat/completions, with random words")
    p.add_argument("--model", metavar="NAME", help="the model to ask for [the first that a server lists]")
    p.add_argument("--id-min", type=int, default=100, metavar="ID", help="the least id in prompts [100]")
    p.add_argument("--id-max", type=int, default=1000, metavar="ID",
                   help="ids in prompts are less than this [1000]")
    p.add_argument("--seed", type=int, metavar="X", help="of the prompts [another one in every run]")
    p.add_argument("--api-key", metavar="KEY", help="sent to every server")
    p.add_argument("--timeout", type=seconds, default=600.0, metavar="S",
                   help="seconds that connecting, and then a request, may take [600]")
    p.add_argument("--json", metavar="FILE", help="write the numbers here, too")
    return p


def read_options() -> argparse.Namespace:
    parser = new_parser()
    o = parser.parse_args()
    if o.prefix and (o.clients or o.prompt):
        parser.error("--prefix has one client and its own prompts: leave out --clients and --prompt")
    if not 0 <= o.id_min < o.id_max:
        parser.error("--id-min: expected a number from 0, less than --id-max")
    if o.prefix and o.requests == 1:
        parser.error("--requests: with --prefix at least 2")
    if o.api_key and not re.fullmatch(r"[!-~]+", o.api_key):
        parser.error("--api-key: expected characters of ASCII, without spaces")
    names = [server.name for server in o.url or []]
    if len(set(names)) < len(names):
        parser.error("--url: two servers have the same name; give NAME=URL")
    o.requests = o.requests or (2 if o.prefix else 4)
    o.clients = [1] if o.prefix else o.clients or [1, 8]
    o.prompt = None if o.prefix else o.prompt or 64
    o.seed = time.time_ns() % 10**9 if o.seed is None else o.seed
    o.random = random.Random(o.seed)
    return o


def main() -> int:
    options = read_options()
    say(f"seed {options.seed}")
    try:
        cases = asyncio.run(run_all(options))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    try:
        return tell(options, cases)
    except OSError as e:
        say(f"cannot write the numbers: {e}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
