// The scrubber under the header: a track of all turns with their flushes and cuts. Told to by ui/frame/header.py.
// It moves at once and tells the app where it is: while it is dragged some times a second, and in the end.

const BUSY = "input, textarea, select, [contenteditable=true], [role=slider], [role=grid], [role=radiogroup], [role=tablist], [role=listbox], [role=combobox]";
const MENU = ".st-key-menu";
const WHILE_DRAGGED = 250; // milliseconds between two messages to the app
const AGAIN = 1500; // after which the app is told again
const LET_GO = 10000; // after which it is not waited for any longer: a busy machine needs its time
const AFTER_KEYS = 90; // of quiet before a key's turn is told: a held key is one move

const state = new WeakMap(); // by place: called again whenever the data change

function element(kind, parent) {
  const made = document.createElement(kind);
  made.className = kind;
  parent.append(made);
  return made;
}

function marks(track, sign, turns, all, kind) {
  let last = -1;
  for (const turn of turns) {
    const place = all > 1 ? (100 * (turn - 1)) / (all - 1) : 100;
    if (place - last < 0.4 && last >= 0) continue; // two marks in one pixel are one
    last = place;
    const mark = document.createElement("i");
    mark.className = kind;
    mark.textContent = sign;
    mark.style.left = `${place}%`;
    track.append(mark);
  }
}

// Where a step leads from a place: a turn with the number of a step inside it, or (null) its end, which shows the last
// of them. null where there is nothing more.
function stepped({ turn, step }, by, steps) {
  const inside = (step ?? steps[turn - 1]) + by;
  if (step !== null || by < 0) {
    if (inside >= 1) return { turn, step: inside < steps[turn - 1] ? inside : null };
  }
  do turn += by;
  while (steps[turn - 1] === 0);
  if (turn < 1 || turn > steps.length) return null;
  return { turn, step: by > 0 && steps[turn - 1] > 1 ? 1 : null };
}

export default function ({ data, parentElement, setTriggerValue }) {
  const { session, turns, shown, flushes, cuts, step, steps, taken } = data;
  let own = state.get(parentElement);
  clearTimeout(own?.again);
  own?.gone.abort();
  if (own?.session !== session) {
    clearTimeout(own?.waits);
    own = { session, dragged: false, waits: null, told: 0, wanted: null, page: null, number: taken, taken };
  }
  own.gone = new AbortController();
  state.set(parentElement, own);
  const signal = own.gone.signal;

  const root = parentElement.querySelector(".scrubber");
  const track = root.querySelector(".track");
  const words = root.querySelector(".words");
  const [back, on, more, menu] = ["back", "on", "more", "steps"].map((name) => root.querySelector(`.${name}`));
  track.replaceChildren();
  const rail = element("b", track);
  const done = element("u", track);
  marks(track, "▼", flushes, turns, "flush");
  marks(track, "✂", cuts, turns, "cut");
  const thumb = element("s", track);

  // The place that is wanted stands, and further keys count from it, until the app has taken just that: what it draws
  // before then is of an earlier one. What got lost on the way is told again, and then let go.
  if (taken >= own.taken) [own.taken, own.shown] = [taken, { turn: shown, step }];
  if (!own.dragged && own.waits === null && own.number <= taken) own.wanted = null;
  if (own.wanted === null && own.page) open(own.page);
  if (own.wanted !== null && own.waits === null) own.again = setTimeout(insist, own.insisted ? LET_GO : AGAIN);

  function at() {
    return own.wanted ?? own.shown;
  }

  function draw() {
    const place = at();
    const share = turns > 1 ? (100 * (place.turn - 1)) / (turns - 1) : 100;
    thumb.style.left = `${share}%`;
    done.style.width = `${share}%`;
    const inside = place.step ? `, step ${place.step} of ${steps[place.turn - 1]}` : "";
    const where = `${place.turn.toLocaleString("en")} of ${turns.toLocaleString("en")}${inside}`;
    // The latest turn is named in the header alone: this is drawn a moment later than the rest.
    const latest = place.turn === turns && place.step === null;
    words.textContent = latest ? "" : data.past ? `You are looking at turn ${where}: read only` : `Turn ${where}`;
    track.setAttribute("aria-valuemax", turns);
    track.setAttribute("aria-valuenow", place.turn);
    track.setAttribute("aria-valuetext", words.textContent || "Latest turn");
    back.disabled = stepped(place, -1, steps) === null;
    on.disabled = stepped(place, 1, steps) === null;
  }

  function send() {
    const { turn, step } = own.wanted;
    const latest = turn === turns && step === null; // whichever that is by then
    setTriggerValue("place", { session, number: own.number, turn: latest ? null : turn, step });
    clearTimeout(own.again);
    own.again = setTimeout(insist, own.insisted ? LET_GO : AGAIN);
  }

  function tell() {
    clearTimeout(own.waits);
    own.waits = null;
    own.told = Date.now();
    own.number = Math.max(own.told, own.number + 1);
    own.insisted = false;
    send();
  }

  function insist() {
    if (own.dragged || own.waits !== null || own.wanted === null) return;
    if (!own.insisted) {
      own.insisted = true;
      send();
    } else {
      own.wanted = null;
      draw();
      if (own.page) open(own.page);
    }
  }

  function go(place, wait) {
    const from = at();
    if (place === null || (place.turn === from.turn && place.step === from.step)) return;
    own.wanted = place;
    draw();
    clearTimeout(own.waits);
    own.waits = setTimeout(tell, wait);
  }

  function goTurn(turn, wait) {
    go({ turn: Math.min(turns, Math.max(1, turn)), step: null }, wait);
  }

  function goStep(by) {
    go(stepped(at(), by, steps), AFTER_KEYS);
  }

  function turnAt(event) {
    const box = track.getBoundingClientRect();
    return 1 + Math.round(((event.clientX - box.left) / box.width) * (turns - 1));
  }

  track.addEventListener("pointerdown", (event) => {
    own.dragged = true;
    track.setPointerCapture(event.pointerId);
    track.focus();
    goTurn(turnAt(event), WHILE_DRAGGED);
  }, { signal });
  track.addEventListener("pointermove", (event) => {
    if (own.dragged) goTurn(turnAt(event), Math.max(0, WHILE_DRAGGED - (Date.now() - own.told)));
  }, { signal });
  const release = () => {
    if (!own.dragged) return;
    own.dragged = false;
    if (own.waits !== null) tell();
  };
  track.addEventListener("pointerup", release, { signal });
  track.addEventListener("pointercancel", release, { signal });

  // The arrows move from turn to turn wherever the focus is; where it is on the track, the keys of every slider do.
  const EVERYWHERE = { ArrowLeft: -1, ArrowRight: 1 };
  const ON_TRACK = { ArrowDown: -1, ArrowUp: 1, Home: -Infinity, End: Infinity };

  function press(event) {
    const focused = event.composedPath()[0];
    const by = EVERYWHERE[event.key] ?? (focused === track && ON_TRACK[event.key]);
    if (!by || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (focused !== track && focused.closest?.(BUSY)) return;
    if (document.querySelector("[role=dialog]")) return;
    event.preventDefault();
    if (event.shiftKey && Number.isFinite(by)) goStep(by);
    else goTurn(at().turn + by, AFTER_KEYS);
  }
  // Streamlit answers the last that it hears: a place that is told after a page was asked for takes that back. So the
  // menu's pages open once the place is taken; any other link names its own turn, and nothing is told after it.
  function follow(event) {
    const link = event.target.closest?.(".stPageLink a");
    if (!link || own.wanted === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!link.closest(MENU)) {
      clearTimeout(own.waits);
      clearTimeout(own.again);
      [own.waits, own.wanted, own.page] = [null, null, null];
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    own.page = new URL(link.href).pathname;
    if (own.waits !== null) tell();
  }

  // Once the run that took the place has drawn the menu too: its lines then lead to that place.
  function open(page, until = Date.now() + LET_GO) {
    clearTimeout(own.opens);
    if (own.page !== page || own.wanted !== null) return;
    const running = !document.querySelector('.stApp[data-test-script-state="notRunning"]');
    if (running && Date.now() < until) {
      own.opens = setTimeout(open, 50, page, until);
      return;
    }
    own.page = null;
    [...document.querySelectorAll(`${MENU} a`)].find((line) => new URL(line.href).pathname === page)?.click();
  }

  document.addEventListener("keydown", press, { signal });
  document.addEventListener("click", follow, { capture: true, signal });
  menu.popover = "auto"; // it closes by itself, at Esc or a click elsewhere
  more.popoverTargetElement = menu;
  menu.addEventListener("beforetoggle", () => {
    const place = more.getBoundingClientRect();
    Object.assign(menu.style, { top: `${place.bottom + 4}px`, right: `${document.documentElement.clientWidth - place.right}px` });
  }, { signal });
  back.addEventListener("click", () => goStep(-1), { signal });
  on.addEventListener("click", () => goStep(1), { signal });
  draw();
  return () => own.gone.abort();
}
