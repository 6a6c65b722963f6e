"""A worker of stet's tasks, with nothing but the standard library. Copy it, or read how one is written.

    def resize(task):                      # task.input, .attempt, .key, .run, .headers, .detail …
        return {"width": 128}              # JSON; an exception is a failed attempt

    Worker(URL, TOKEN, {"resize": resize}, room=4).run()      # until stop() is called, or SIGTERM
"""
import http.client, json, os, random, socket, threading, time, traceback, urllib.error, urllib.request, uuid


class Failed(Exception):
    """Says more of a failure: its code, whether another attempt may follow, and the least delay before it."""
    def __init__(self, message, code="error", retryable=True, retry_after=0):
        super().__init__(message)
        self.code, self.retryable, self.retry_after = code, retryable, retry_after


class Refused(Exception):
    """The server has refused a request, and will again."""


class Task:
    def __init__(self, fields):
        self.__dict__.update(fields)         # lease, name, input, attempt, key, run, workflow, location
        self.headers, self.detail = fields.get("headers", {}), fields.get("detail")
        self.noted = None                    # detail of the next heartbeat
        self.cancelled = threading.Event()   # it is wanted no more: look at it now and then

    def heartbeat(self, detail):
        """Notes where the work stands, for whoever has to do it again. Leases are renewed without it."""
        self.noted = detail


class Worker:
    def __init__(self, url, token, functions, room=4, name=None, lease=30.0, wait=20.0):
        self.url, self.token, self.functions = url.rstrip("/") + "/api/v1/tasks/", token, functions
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.room, self.length, self.wait = room, int(lease * 1000), int(wait * 1000)
        self.tasks, self.changed, self.stopped = {}, threading.Condition(), threading.Event()

    def stop(self):
        self.stopped.set()

    def run(self, grace=10.0):
        """Executes tasks until stop() is called. What has not ended after the grace is given back."""
        threading.Thread(target=self._beat, daemon=True).start()
        while not self.stopped.is_set():
            with self.changed:
                if not self.changed.wait_for(lambda: len(self.tasks) < self.room, timeout=1):
                    continue
                free = self.room - len(self.tasks)
            got = self._call("lease", {"worker": self.name, "names": list(self.functions), "max": free,
                "wait_ms": self.wait, "lease_ms": self.length, "request": uuid.uuid4().hex}, give_up=self.stopped)
            self._cancel(got["cancelled"] if got else [])
            for fields in got["tasks"] if got else []:
                self.tasks[fields["lease"]] = task = Task(fields)
                threading.Thread(target=self._execute, args=(task,), daemon=True).start()
        with self.changed:
            self.changed.wait_for(lambda: not self.tasks, timeout=grace)
            left = list(self.tasks)
        for i in range(0, len(left), 100):
            self._call("release", {"leases": left[i:i + 100]})

    def _execute(self, task):
        try:
            verb, body = "complete", {"result": self.functions[task.name](task)}
            json.dumps(body)
        except Failed as e:
            verb, body = "fail", {"error": {"message": str(e), "code": e.code, "retryable": e.retryable,
                "retry_after_ms": int(e.retry_after * 1000)}}
        except Exception as e:
            verb, body = "fail", {"error": {"message": f"{type(e).__name__}: {e}", "stack": traceback.format_exc()}}
        try:
            self._call(verb, {"lease": task.lease, **body})
        except Refused as e:                 # gone or cancelled; or the result is not taken, and expires
            print(f"stet: {verb} {task.name} of {task.run}: {e}", flush=True)
        with self.changed:
            self.tasks.pop(task.lease, None)
            self.changed.notify_all()

    def _beat(self):
        while not time.sleep(self.length / 3000):
            leases = [{"lease": t.lease, **({"detail": t.noted} if t.noted is not None else {})}
                      for t in list(self.tasks.values())]
            for i in range(0, len(leases), 100):
                got = self._call("heartbeat", {"leases": leases[i:i + 100], "lease_ms": self.length})
                self._cancel(s["lease"] for s in got["leases"] if s["state"] != "held")

    def _cancel(self, leases):
        for lease in leases:
            if lease in self.tasks:
                self.tasks[lease].cancelled.set()

    def _call(self, verb, body, give_up=None):
        """Repeats after 429, 5xx and a broken connection, and after nothing else."""
        data, pause = json.dumps(body).encode(), 0.1
        while not (give_up and give_up.is_set()):
            request = urllib.request.Request(self.url + verb, data, {"Content-Type": "application/json",
                "Authorization": "Bearer " + self.token})
            try:
                with urllib.request.urlopen(request, timeout=self.wait / 1000 + 30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as e:
                if e.code != 429 and e.code < 500:
                    raise Refused(f"{e.code} {e.read(500).decode(errors='replace')}") from None
            except (OSError, http.client.HTTPException, ValueError):
                pass                         # lost: the server answers a repeat as it has answered before
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, 5)
