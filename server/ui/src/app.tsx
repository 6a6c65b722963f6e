import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { away, begin, has, info, may, signedOut, signIn, signOut, ways } from "./api";
import { AuditPage } from "./audit";
import { Icon } from "./icons";
import { Letters } from "./letters";
import { liveness } from "./live";
import { Nodes } from "./nodes";
import { Trouble } from "./parts";
import { Queues } from "./queues";
import { route } from "./route";
import { RunPage } from "./run";
import { RunsPage } from "./runs";
import { Scripts } from "./scripts";
import { Schedules } from "./schedules";
import { visible } from "./texts";
import { Topics } from "./topics";

const pages: [string, string][] = [
  ["runs", "Runs"], ["queues", "Queues"], ["schedules", "Schedules"], ["topics", "Topics"],
  ["scripts", "Scripts"], ["letters", "Letters"], ["nodes", "Nodes"], ["audit", "Audit"],
];

/** "": as the system says. */
const theme = signal(localStorage.getItem("stet.theme") ?? "");

function useTheme() {
  useEffect(() => {
    if (theme.value) document.documentElement.dataset.theme = theme.value;
    else delete document.documentElement.dataset.theme;
    localStorage.setItem("stet.theme", theme.value);
  }, [theme.value]);
}

function Shell() {
  useTheme();
  const at = route.value.path[0]!;
  const who = info.value?.identity;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="#/runs"><b>stet</b></a>
        <nav aria-label="Pages">
          {pages.filter(([id]) => (id !== "audit" || (may("admin") && has("audit"))) && (id !== "scripts" || has("scripts"))).map(([id, label]) => (
            <a key={id} href={"#/" + id} aria-current={at === id ? "page" : undefined}>{label}</a>
          ))}
        </nav>
        <div class="who">
          {info.value && <span class="dim" title={info.value.store.durable}>{info.value.store.kind}</span>}
          <Live />
          <button class="button quiet square" onClick={turnTheme} aria-label={"Colours: " + (theme.value || "as the system") + ". Change"}
            title={"Colours: " + (theme.value || "as the system")}><Icon name="theme" /></button>
          {who && <span class="name" title={who.name + ", role " + who.role}>{who.name}</span>}
          {who && <button class="button quiet small" onClick={() => void signOut()}>Sign out</button>}
        </div>
      </header>
      {away.value && <div class="banner is-bad" role="alert"><Icon name="stalled" />The server does not answer. What you see
        may be old; the page keeps trying.</div>}
      <main id="main" tabIndex={-1}><Page /></main>
    </>
  );
}

function turnTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const turns = dark ? ["", "light", "dark"] : ["", "dark", "light"];
  theme.value = turns[(turns.indexOf(theme.value) + 1) % 3]!;
}

function Live() {
  const [word, hint] = away.value ? ["away", "the server does not answer"] : {
    live: ["live", "changes come at once"] as const,
    polling: ["every 5 s", "this page asks the server every few seconds"] as const,
    paused: ["paused", "the tab was hidden"] as const,
    still: ["as read", "this page shows what there was when it was read: load it again for what is new"] as const,
  }[liveness.value];
  return <span class={"live is-" + word} title={hint}>{word}</span>;
}

function Page() {
  const { path, query } = route.value;
  const [page, id, tab] = path;
  useEffect(() => {
    document.title = [id && visible(id), pages.find(([p]) => p === page)?.[1], "stet"].filter(Boolean).join(" · ");
  }, [page, id]);
  switch (page) {
    case "runs":
      return id ? <RunPage key={id} id={id} tab={tab ?? "timeline"} at={query.get("at") ?? ""} />
        : <RunsPage query={query.get("query") ?? ""} order={query.get("order") ?? ""} />;
    case "queues": return <Queues name={id} />;
    case "schedules": return <Schedules name={id} />;
    case "topics": return <Topics name={id} />;
    case "scripts": return <Scripts name={id} version={query.get("version") ?? ""} />;
    case "letters": return <Letters />;
    case "nodes": return <Nodes />;
    case "audit": return <AuditPage />;
    case "refused": // signed in meanwhile
    case "provider-away": return <RunsPage query="" order="" />;
  }
  return <div class="empty"><h1>There is no such page</h1><p><a href="#/runs">All runs</a></p></div>;
}

/** Why a login at the identity provider did not come about, by the route to which it returns. */
const refusals: Record<string, string> = {
  refused: "You are not signed in: the identity provider has not confirmed who you are, nobody has given your account a role here, or it took more than 10 minutes. Sign in again, or ask whoever runs this server for a role.",
  "provider-away": "You are not signed in: the identity provider does not answer. Try again, or use a token.",
};

function SignIn() {
  useTheme();
  const [token, setToken] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [provider, setProvider] = useState("");
  useEffect(() => {
    ways().then((w) => setProvider(w.provider ?? ""), () => setProvider(""));
  }, []);
  const send = async (e: Event) => {
    e.preventDefault();
    try {
      await signIn(token.trim());
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <main id="main" class="sign-in" tabIndex={-1}>
      <form onSubmit={send} class="card">
        <h1 class="brand"><b>stet</b></h1>
        {refusals[route.value.path[0]!] && <div class="note is-bad" role="alert"><Icon name="failed" /><p>{refusals[route.value.path[0]!]}</p></div>}
        {provider && <p><a class="button primary" href="api/v1/login/provider">Sign in at {provider}</a></p>}
        <p>Sign in with a token. <code>stet token create</code> makes one; <code>stet serve</code> prints an address that
          has one in it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="current-password" value={token} required
          onInput={(e) => setToken(e.currentTarget.value)} />
        {error !== null && <Trouble error={error} />}
        <button class="button primary">Sign in</button>
      </form>
    </main>
  );
}

function App() {
  const [error, setError] = useState<unknown>(null);
  const start = () => {
    setError(null);
    begin().catch((e) => setError(e));
  };
  useEffect(start, []);
  if (signedOut.value) return <SignIn />;
  if (info.value) return <Shell />;
  return <main id="main" class="sign-in">{error ? <Trouble error={error} retry={start} /> : <p class="dim">Reading…</p>}</main>;
}

render(<App />, document.getElementById("app")!);
