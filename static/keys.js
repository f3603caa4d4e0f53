// What the keyboard and links do on every page, in the browser alone. Told on screen by ui/keys.py.

const TYPING = "input, textarea, select, [contenteditable=true], [role=combobox], [role=grid]";

function enter(place) {
  const field = place && [...document.querySelectorAll(place)].find((each) => each.offsetParent && !each.disabled);
  field?.focus();
  field?.setSelectionRange(field.tagName === "TEXTAREA" ? field.value.length : 0, field.value.length);
  return Boolean(field);
}

// With Ctrl, Shift or Cmd a link opens elsewhere, as links do; Streamlit's own handler would open it here.
function follow(event) {
  if (event.target.closest?.('a[href^="#"][title]')) event.preventDefault(); // an explained word leads nowhere
  const elsewhere = event.ctrlKey || event.metaKey || event.shiftKey;
  if (elsewhere && event.target.closest?.(".stPageLink a")) event.stopPropagation();
}

function press(event, data, ask, wait) {
  const other = event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing;
  if (other || event.defaultPrevented || event.target.closest?.(TYPING)) return;
  const dialog = document.querySelector("[role=dialog]");
  // After a download the focus is on nothing, and a dialog hears only what is typed in it.
  if (dialog && event.key === "Escape" && document.activeElement === document.body) {
    dialog.querySelector('button[aria-label="Close"]')?.click();
  }
  if (dialog) return;
  if (event.key === "/") {
    event.preventDefault();
    if (enter(data.search)) return;
    wait();
    ask("goto");
  } else if (event.key === "e" && enter(data.edit)) {
    event.preventDefault();
  } else if (event.key === "?") {
    event.preventDefault();
    ask("keys");
  }
}

// In "Go to": the arrows choose among the links, Enter follows the first, once what was typed has been looked for.
const ASKING = ".st-key-goto__words input";

function choose(event) {
  const field = event.target.closest?.(ASKING);
  const links = [...document.querySelectorAll(".st-key-goto__found a")];
  const at = links.indexOf(event.target.closest?.("a"));
  if (!links.length || event.isComposing || (!field && at < 0)) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    event.stopPropagation();
    const to = at + (event.key === "ArrowDown" ? 1 : -1);
    (links[Math.min(to, links.length - 1)] ?? document.querySelector(ASKING)).focus();
  } else if (field && event.key === "Enter") {
    event.stopPropagation();
    first(event.ctrlKey || event.metaKey);
  }
}

function first(ctrlKey = false) {
  settled(() => {
    const link = document.querySelector(".st-key-goto__found a");
    link?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey }));
  });
}

// While "Go to" is on its way from the server, a field in its place takes what is typed, and hands it over.
const field = Object.assign(document.createElement("input"), { className: "goto-waiting", hidden: true, ariaLabel: "Go to" });
let [entered, real, until, hiding] = [false, null, 0, 0]; // they outlast the page on which the key was pressed

function waiting(listen) {
  document.body.append(field);
  const wait = () => {
    if (!field.hidden || document.querySelector("[role=dialog]")) return;
    [entered, real, until, field.value] = [false, null, performance.now() + 10000, ""];
    const look = getComputedStyle(document.querySelector(".stApp"));
    Object.assign(field.style, { color: look.color, background: look.backgroundColor, colorScheme: look.colorScheme });
    field.hidden = false;
    field.focus();
    clearTimeout(hiding);
    hiding = setTimeout(() => (field.hidden = true), 10000);
  };
  const put = (text) => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(real, text);
    real.dispatchEvent(new Event("input", { bubbles: true }));
  };
  listen("keydown", (event) => {
    const other = event.ctrlKey || event.metaKey || event.altKey;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && document.querySelector(".st-key-goto__open button")) {
      wait();
    } else if (event.target === field && event.key === "Enter") {
      entered = true;
    } else if (event.target === field && event.key === "Escape") {
      field.hidden = true;
    } else {
      // The dialog takes the focus for itself for a moment when it opens.
      const to = real?.isConnected ? real : field.hidden ? null : field;
      if (!to || performance.now() > until || event.key.length > 1 || other || event.target === to) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (to === real) put(real.value + event.key);
      else field.value += event.key;
      to.focus();
    }
  });
  listen("click", (event) => event.target.closest?.(".st-key-goto__open button") && wait());
  const handOver = (opened) => {
    if (!until || performance.now() > until) return;
    if (field.hidden && !real) return opened.closest("[role=dialog]")?.querySelector('button[aria-label="Close"]')?.click();
    [real, until] = [opened, performance.now() + 1000];
    if (field.value) put(field.value);
    field.hidden = true;
    real.focus();
    // The list of pages stands there first, then what was typed is looked for.
    const limit = performance.now() + 5000;
    let before = null;
    const answered = () => {
      const link = document.querySelector(".st-key-goto__found a")?.textContent;
      before ??= link;
      if ((link && link !== before) || performance.now() > limit) first();
      else setTimeout(answered, 50);
    };
    if (entered) setTimeout(answered, 50);
  };
  return { wait, handOver };
}

// Once nothing has been drawn for as long as the field waits before it says what was typed.
function settled(then, since = performance.now()) {
  const idle = document.querySelector('.stApp[data-test-script-state="notRunning"]');
  if (!idle) since = performance.now();
  if (performance.now() - since > 400) then();
  else setTimeout(() => settled(then, since), 50);
}

// The menu's line of this page is said to be that, not only lit up.
function mark() {
  for (const line of document.querySelectorAll(".st-key-menu a")) {
    if (line.href && new URL(line.href).pathname === location.pathname) line.setAttribute("aria-current", "page");
    else line.removeAttribute("aria-current");
  }
}

// What is open on a page is no step of its own: Back leaves the page at once, or goes to the turn before. Streamlit makes
// a step of every parameter that a page writes into its address.
function stay() {
  const push = history.pushState;
  if (push.stays) return;
  history.pushState = function (data, title, url) {
    const [now, next] = [new URL(location.href), new URL(url, location.href)];
    const same = (name) => (now.searchParams.get(name) ?? next.searchParams.get(name)) === next.searchParams.get(name);
    const within = now.pathname === next.pathname && same("session");
    const step = now.searchParams.get("turn") !== next.searchParams.get("turn");
    return within && !step ? history.replaceState(data, title, url) : push.call(history, data, title, url);
  };
  history.pushState.stays = true;
}

// Buttons to copy and to follow the message under the pointer, or that Y and the arrows chose (F follows it): one pair for
// all of them, so that no message adds a stop for the keyboard.
function copying(listen, gone, ask) {
  const follow = document.createElement("button");
  follow.className = "follow-message";
  follow.type = "button";
  follow.textContent = "Follow";
  follow.tabIndex = -1;
  follow.hidden = true;
  const button = document.createElement("button");
  button.className = "copy-message";
  button.type = "button";
  button.hidden = true;
  document.body.append(button, follow);
  gone.addEventListener("abort", () => [button, follow].forEach((each) => each.remove()));
  let over = null;
  const hide = () => {
    over = null;
    button.hidden = follow.hidden = true;
  };
  const number = () => over?.querySelector('[class*="st-key-chat__said_"]')?.className.match(/st-key-chat__said_(\d+)/)?.[1];
  const show = (message) => {
    over = message;
    const place = message.getBoundingClientRect();
    const part = message.querySelector('[class*="st-key-chat__whole_"]')?.textContent.includes("Show all");
    button.textContent = part ? "Copy what is shown" : "Copy";
    button.hidden = !navigator.clipboard; // away from this machine and without TLS, browsers give none
    button.style.top = `${Math.max(place.top, message.closest('[class*="st-key-chat__box"]')?.getBoundingClientRect().top ?? 0) + 4}px`;
    button.style.right = `${document.documentElement.clientWidth - place.right + 4}px`;
    const look = getComputedStyle(message);
    for (const each of [button, follow]) {
      each.style.color = look.color;
      each.style.colorScheme = look.colorScheme;
    }
    follow.hidden = !number();
    follow.style.top = button.style.top;
    follow.style.right = `${parseFloat(button.style.right) + (button.hidden ? 0 : button.offsetWidth + 4)}px`;
  };
  listen("pointerover", (event) => {
    if ([button, follow].includes(event.target) || document.activeElement === button) return;
    const message = event.target.closest?.('[data-testid="stChatMessage"]');
    if (!message) hide();
    else if (message !== over) show(message);
  });
  let moving = false; // it scrolls because a key moved it
  listen("scroll", () => moving || hide());
  listen("keydown", (event) => {
    const messages = [...document.querySelectorAll('[data-testid="stChatMessage"]')];
    const chosen = document.activeElement === button ? messages.indexOf(over) : -1;
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
    const busy = event.target.closest?.(TYPING) || document.querySelector("[role=dialog]");
    const asked = event.key.toLowerCase() === "y" && !busy;
    if (chosen >= 0 && event.key.toLowerCase() === "f") return follow.click();
    if (event.ctrlKey || event.metaKey || event.altKey || (chosen < 0 && !asked)) return hide();
    if (event.key === "Enter" || event.key === " ") return event.stopPropagation();
    if (event.key === "Escape") button.blur();
    const next = asked ? messages.at(-1) : messages[chosen + step];
    if (!next || !(asked || step)) return step || hide();
    event.preventDefault();
    moving = true;
    next.scrollIntoView({ block: "nearest" });
    requestAnimationFrame(() => requestAnimationFrame(() => {
      show(next);
      button.focus();
      moving = false;
    }));
  });
  follow.addEventListener("click", () => ask({ message: number() }));
  button.addEventListener("click", async () => {
    const texts = [...(over?.querySelectorAll('[data-testid="stText"], [data-testid="stCode"] code') ?? [])];
    await navigator.clipboard.writeText(texts.map((each) => each.textContent).join("\n\n"));
    button.textContent = "Copied";
  });
}

// The conversation is one stop of the Tab key, its latest line or the one that was last focused: Up, Down, Home and End
// go to the others, which stay what they are for who reads with a screen reader.
let stood = null; // outlasts a drawing of the page
function roving(listen) {
  // Streamlit draws a button twice, once to measure it. The form of a turn has stops of its own.
  const lines = () => [...document.querySelectorAll('[class*="st-key-chat__box"] :is(button, a)')].filter(
    (each) => each.offsetParent && !each.closest(".st-key-chat__matter"),
  );
  listen("focusin", (event) => lines().includes(event.target) && ((stood = event.target), settle()));
  listen("keydown", (event) => {
    const [all, to] = [lines(), { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key]];
    const at = all.indexOf(event.target);
    if (!to || at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    all[Math.min(Math.max(at + to, 0), all.length - 1)].focus();
  });
  function settle() {
    const all = lines();
    const stop = all.includes(stood) ? stood : all.at(-1);
    for (const each of all) each.tabIndex = each === stop ? 0 : -1;
  }
  settle();
  return settle;
}

// What opens over the page by a key takes the focus, and gives it back to where it came from; so does what is drawn anew.
// Streamlit leaves it on the button of a popover, whose content is the page's last, and on nothing after a dialog.
const OVER = "[role=dialog], [role=menu], [role=listbox], [data-testid=stPopoverBody], .goto-waiting";
let [from, address] = [null, ""]; // they outlast a drawing of the page

function returning(listen) {
  const name = (each) => each?.closest?.('[class*="st-key-"]')?.className.match(/st-key-\S+/)?.[0];
  listen("focusin", (event) => event.target.closest?.(OVER) || ([from, address] = [event.target, location.pathname]));
  listen("pointerdown", () => (from = null)); // who points at things goes on elsewhere
  let over = null;
  return () => {
    const [before, focused] = [over, document.activeElement];
    over = document.querySelector("[role=dialog], [data-testid=stPopoverBody]");
    const opened = over !== before && over?.matches("[data-testid=stPopoverBody]") && !over.contains(focused);
    if (opened && focused.matches(":focus-visible")) {
      over.tabIndex = -1;
      over.focus({ preventScroll: true });
    } else if (!over && from && focused === document.body && address === location.pathname) {
      const drawn = name(from) && document.querySelector(`.${CSS.escape(name(from))} :is(button, a, input, textarea)`);
      if (!from.isConnected) drawn?.focus({ preventScroll: true });
      else if (before) from.focus({ preventScroll: true });
    }
  };
}

// A button at selected words of a conversation, a prompt or a fact, to follow them.
function selecting(listen, gone, ask) {
  const button = document.createElement("button");
  button.className = "follow-words";
  button.type = "button";
  button.textContent = "Follow these words";
  button.hidden = true;
  document.body.append(button);
  gone.addEventListener("abort", () => button.remove());
  let words = "";
  listen("selectionchange", () => (button.hidden ||= document.getSelection()?.isCollapsed ?? true));
  listen("pointerup", (event) => {
    if (event.target === button) return;
    const chosen = document.getSelection();
    words = chosen?.toString().trim().slice(0, 300) ?? "";
    const within = chosen?.anchorNode?.parentElement?.closest('[data-testid="stMain"]');
    if (words.length < 3 || !within || event.target.closest?.(TYPING)) return;
    const place = chosen.getRangeAt(0).getBoundingClientRect();
    const look = getComputedStyle(within);
    Object.assign(button.style, {
      top: `${Math.min(place.bottom + 4, innerHeight - 30)}px`, left: `${Math.max(4, Math.min(place.left, innerWidth - 160))}px`,
      color: look.color, colorScheme: look.colorScheme,
    });
    button.hidden = false;
  });
  button.addEventListener("pointerdown", (event) => event.preventDefault()); // the selection stays
  button.addEventListener("click", () => {
    button.hidden = true;
    ask({ words });
  });
}

const drawn = new WeakMap(); // by place, because it is called again whenever the data change

export default function ({ data, parentElement, setTriggerValue }) {
  drawn.get(parentElement)?.abort();
  const gone = new AbortController();
  drawn.set(parentElement, gone);
  const listen = (type, act) => document.addEventListener(type, act, { capture: true, signal: gone.signal });
  listen("click", follow);
  const { wait, handOver } = waiting(listen);
  listen("keydown", (event) => press(event, data ?? {}, (what) => setTriggerValue("asked", what), wait));
  listen("keydown", choose);
  let known = null; // the dialog takes the focus for itself when it opens
  const settle = roving(listen);
  const giveBack = returning(listen);
  let drawing = 0; // as a reply comes, many times a second
  const opened = new MutationObserver(() => {
    drawing ||= requestAnimationFrame(() => (settle((drawing = 0)), giveBack()));
    const asking = document.querySelector(ASKING);
    if (asking && asking !== known) {
      handOver(asking);
      setTimeout(() => asking.focus(), 0);
    }
    known = asking;
    // Tab goes from field to field; the help beside a field is for the pointer, and for who reads with a screen reader.
    for (const help of document.querySelectorAll('[role=dialog] button[aria-label^="Help for"]')) help.tabIndex = -1;
  });
  opened.observe(document.body, { childList: true, subtree: true });
  gone.signal.addEventListener("abort", () => opened.disconnect());
  stay();
  const followed = (what) => setTriggerValue("follow", what);
  copying(listen, gone.signal, followed);
  selecting(listen, gone.signal, followed);
  mark();
  requestAnimationFrame(mark);
  return () => gone.abort();
}
