"""A worker of stet's tasks, with nothing but the standard library. Copy it, or read how one is written.
    def resize(task):                      # task.input, .attempt, .key, .run, .headers, .detail …
        return {"width": 128}              # JSON; an exception is a failed attempt
    Worker(URL, TOKEN, {"resize": resize}, room=4).run()      # until stop() is called, or SIGTERM
"""
import http.client, json, os, random, socket, threading, time, traceback, urllib.error, urllib.request, uuid
_stay = type("Stay", (urllib.request.HTTPRedirectHandler,), {"redirect_request": lambda *_: None})  # for one server
class Failed(Exception):
    """Says more of a failure: its code, whether another attempt may follow, and the least delay before it."""
    def __init__(self, message, code="error", retryable=True, retry_after=0):
        super().__init__(message)
        self.fields = {"code": str(code), "retryable": retryable, "retry_after_ms": int(retry_after * 1000)}
class Refused(Exception): """The server has refused a request, and will again."""
class Task:
    def __init__(self, fields, call):
        self.__dict__.update({"headers": {}, "detail": None}, **fields)  # lease, name, input, attempt, key, run, …
        self.cancelled = threading.Event()   # it is wanted no more: look at it now and then
        self._beat, self._call, self._lock = {"lease": self.lease}, call, threading.RLock()
        self._items, self._size, self._number = [], 0, 0

    def heartbeat(self, detail):
        """Notes where the work stands, for whoever has to do it again. Leases are renewed without it."""
        self._beat = {"lease": self.lease, "detail": json.loads(json.dumps(detail, allow_nan=False))}

    def append(self, stream, value, **keep):
        """Adds an item to a stream of the run, within 0.1 s. Waits while others are on their way."""
        with self._lock:
            self._size += len(json.dumps(value, allow_nan=False)) + 66
            self._items.append({"stream": stream, "value": value, **keep})
            if self._size > 1 << 16:         # the server takes 1000 items at most
                self.flush()
            elif len(self._items) == 1:
                threading.Timer(0.1, self._later).start()
    def flush(self):
        """Sends the items that wait, in a request with a number of its own: its repeat adds nothing."""
        with self._lock:
            if self._items:
                self._number += 1
                self._call("append", {"lease": self.lease, "number": self._number, "items": self._items})
                self._items, self._size = [], 0
    def _later(self):
        try: self.flush()
        except Refused: self.cancelled.set() # the body's next flush says so, or its end

class Worker:
    def __init__(self, url, token, functions, room=4, name=None, lease=30.0, wait=20.0):
        self.url, self.token, self.functions = url.rstrip("/") + "/api/v1/tasks/", token, functions
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.room, self.length, self.wait = min(room, 100), int(lease * 1000), int(wait * 1000)
        self.tasks, self.changed, self.stopped = {}, threading.Condition(), threading.Event()
        self.stop = self.stopped.set

    def run(self, grace=10.0):
        """Executes tasks until stop() is called. What has not ended after the grace is given back."""
        threading.Thread(target=self._beat, daemon=True).start()
        while not self.stopped.is_set():
            with self.changed:
                if not self.changed.wait_for(lambda: len(self.tasks) < self.room, timeout=1):
                    continue
            got = self._call("lease", {"worker": self.name, "names": list(self.functions), "wait_ms": self.wait,
                "lease_ms": self.length, "max": self.room - len(self.tasks), "request": uuid.uuid4().hex}, give_up=self.stopped)
            self._cancel(got["cancelled"] if got else [])
            for fields in got["tasks"] if got else []:
                self.tasks[fields["lease"]] = task = Task(fields, self._call)
                threading.Thread(target=self._execute, args=(task,), daemon=True).start()
        with self.changed:
            if not self.changed.wait_for(lambda: not self.tasks, timeout=grace):
                self._call("release", {"leases": list(self.tasks)})
    def _execute(self, task):
        try:
            try: verb, body = "complete", {"result": self.functions[task.name](task)}
            finally: task.flush()
            json.dumps(body, allow_nan=False)
        except BaseException as e:           # an exit, too: a lease without a body would be renewed for ever
            error = {"message": f"{type(e).__name__}: {e}", "stack": traceback.format_exc()}
            verb, body = "fail", {"error": {"message": str(e), **e.fields} if isinstance(e, Failed) else error}
        try:
            self._call(verb, {"lease": task.lease, **body})
        except Refused as e:                 # gone or cancelled; or what it has is not taken, and expires
            print(f"stet: {verb} {task.name} of {task.run}: {e}", flush=True)
        with self.changed:
            self.tasks.pop(task.lease, None)
            self.changed.notify_all()
    def _beat(self):
        while not time.sleep(self.length / 3000):
            beats = [task._beat for task in list(self.tasks.values())]
            for leases in (beats, [{"lease": b["lease"]} for b in beats]) if beats else ():
                try:                         # if a detail is refused, it is too large, they are renewed without
                    got = self._call("heartbeat", {"leases": leases, "lease_ms": self.length})
                    self._cancel(s["lease"] for s in got["leases"] if s["state"] != "held")
                    break
                except Exception as e: print(f"stet: heartbeat: {e}", flush=True)

    def _cancel(self, leases):
        for task in filter(None, map(self.tasks.get, leases)):
            task.cancelled.set()

    def _call(self, verb, body, give_up=None):
        """Repeats after 429, 5xx and a broken connection, and after nothing else."""
        data, pause = json.dumps(body).encode(), 0.1
        while not (give_up and give_up.is_set()):
            request = urllib.request.Request(self.url + verb, data, {"Content-Type": "application/json",
                "Authorization": "Bearer " + self.token})
            try:
                return json.load(urllib.request.build_opener(_stay).open(request, timeout=self.wait / 1000 + 30))
            except urllib.error.HTTPError as e:
                if e.code != 429 and e.code < 500: raise Refused(f"{e.code} {e.read(500).decode(errors='replace')}") from None
            except (OSError, http.client.HTTPException, ValueError): pass  # lost: a repeat has the answer that was given before
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, 5)
