// Any word of a prompt leads to where its sentence came from: a click, or F and the arrows. Mounted by ui/context/parts.py.

const PLACE = '[class*="st-key-context__said_"]';
const NAME = /st-key-context__said_[0-9a-f]+_([fvmrsc][0-9a-f]+)/;
const TEXT = '[data-testid="stText"], [data-testid="stMarkdownContainer"]';
const OTHER = "a, button, summary, input";
const TYPING = "input, textarea, select, [contenteditable=true], [role=combobox], [role=grid]";
const MOST = 300; // characters that an address takes
const TWICE = 250; // ms: a second click within them selects the word instead
const SEGMENTS = { sentence: new Intl.Segmenter("en", { granularity: "sentence" }), word: new Intl.Segmenter("en", { granularity: "word" }) };

// The texts of an element in order, and where each begins in the whole.
function read(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  const nodes = [];
  let text = "";
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.nodeType === Node.TEXT_NODE) {
      nodes.push({ node, start: text.length });
      text += node.data;
    } else if (node.tagName === "BR") text += "\n";
  }
  return { text, nodes };
}

function rangeOf({ nodes }, start, end) {
  const range = document.createRange();
  for (const { node, start: from } of nodes) {
    if (from <= start && start <= from + node.length) range.setStart(node, start - from);
    if (from < end && end <= from + node.length) range.setEnd(node, end - from);
  }
  return range;
}

const boxOf = ({ whole, start, end }) => rangeOf(whole, start, end).getBoundingClientRect();
const inSight = (box) => box.top > 70 && box.bottom < innerHeight - 40; // below the page's bar, with room for the button

// Every sentence of an element, each with its place in the text; a line's end ends one too.
function sentences(element) {
  const whole = read(element);
  const found = [];
  let start = 0;
  for (const line of whole.text.split("\n")) {
    for (const { segment, index } of SEGMENTS.sentence.segment(line)) {
      const words = segment.trim();
      const from = start + index + segment.indexOf(words);
      if (words) found.push({ element, whole, words, start: from, end: from + words.length });
    }
    start += line.length + 1;
  }
  return found;
}

function at(event) {
  const element = event.target.closest?.(PLACE) && event.target.closest(TEXT);
  if (!element || event.target.closest(OTHER)) return null;
  const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  const range = caret ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
  const [node, offset] = caret ? [caret.offsetNode, caret.offset] : [range?.startContainer, range?.startOffset];
  const sentence = sentences(element).find(({ whole, start, end }) => {
    const text = whole.nodes.find((each) => each.node === node);
    return text && start <= text.start + offset && text.start + offset <= end;
  });
  if (!sentence) return null;
  const place = sentence.whole.nodes.find((each) => each.node === node).start + offset - sentence.start;
  const words = [...SEGMENTS.word.segment(sentence.words)].filter((each) => each.isWordLike);
  const word = words.find(({ segment, index }) => index <= place && place <= index + segment.length);
  return { ...sentence, word: word?.segment ?? "" };
}

function lit(sentence) {
  if (!globalThis.Highlight) return;
  if (sentence) CSS.highlights.set("followed", new Highlight(rangeOf(sentence.whole, sentence.start, sentence.end)));
  else CSS.highlights.delete("followed");
}

// What is asked of the server: the entry, and of it the sentence unless that is all there is.
function asked({ element, whole, words, word }) {
  const ref = element.closest(PLACE).className.match(NAME)?.[1];
  const short = words.length <= MOST ? words : words.slice(0, MOST).replace(/\s+\S*$/, "");
  return { ref, words: words === whole.text.trim() ? "" : short, word: word ?? "" };
}

function elsewhere({ ref, words, word }) {
  const url = new URL("trace", location.href);
  for (const name of ["session", "turn", "step"]) {
    const kept = new URL(location.href).searchParams.get(name);
    if (kept) url.searchParams.set(name, kept);
  }
  for (const [name, value] of Object.entries({ follow: ref, words, word })) if (value) url.searchParams.set(name, value);
  open(url, "_blank", "noopener");
}

const drawn = new WeakMap(); // by place: called again whenever the page is drawn

export default function ({ parentElement, setTriggerValue }) {
  drawn.get(parentElement)?.abort();
  const gone = new AbortController();
  drawn.set(parentElement, gone);
  const listen = (type, act) => document.addEventListener(type, act, { capture: true, signal: gone.signal });
  const button = document.createElement("button");
  button.className = "follow-words";
  button.type = "button";
  button.textContent = "Follow this sentence";
  button.hidden = true;
  document.body.append(button);
  gone.signal.addEventListener("abort", () => {
    button.remove();
    lit(null);
  });
  const go = (sentence) => setTriggerValue("follow", asked(sentence));

  listen("pointermove", (event) => {
    if (!button.hidden) return;
    lit(event.buttons ? null : at(event));
  });
  let waiting;
  listen("click", (event) => {
    clearTimeout(waiting);
    const sentence = event.detail === 1 && document.getSelection()?.isCollapsed !== false ? at(event) : null;
    if (!sentence) return;
    if (event.ctrlKey || event.metaKey) elsewhere(asked(sentence));
    else waiting = setTimeout(() => document.getSelection()?.isCollapsed !== false && go(sentence), TWICE);
  });

  let chosen = null;
  const hide = () => {
    button.hidden = true;
    chosen = null;
    lit(null);
  };
  const show = (sentence) => {
    chosen = sentence;
    let box = boxOf(sentence);
    if (!inSight(box)) {
      sentence.element.closest('[data-testid="stMain"]').scrollBy({ top: box.top - innerHeight / 2, behavior: "instant" });
      box = boxOf(sentence);
    }
    const look = getComputedStyle(sentence.element);
    button.hidden = false;
    button.setAttribute("aria-label", `Follow: “${sentence.words}”. Up and Down choose another sentence`);
    Object.assign(button.style, {
      top: `${Math.max(4, Math.min(box.bottom + 4, innerHeight - 30))}px`,
      left: `${Math.max(4, Math.min(box.left, innerWidth - 180))}px`,
      color: look.color, colorScheme: look.colorScheme,
    });
    button.blur(); // so that its new name is read out
    button.focus({ preventScroll: true });
    lit(sentence);
  };
  listen("keydown", (event) => {
    const busy = event.target.closest?.(TYPING) || document.querySelector("[role=dialog]");
    const own = document.activeElement === button && chosen;
    if (event.ctrlKey || event.metaKey || event.altKey || busy) return;
    const begin = event.key.toLowerCase() === "f" && !own;
    const step = own ? { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0 : 0;
    if (own && event.key === "Escape") return button.blur();
    if (!begin && !step) return;
    event.preventDefault();
    event.stopPropagation();
    const all = [...document.querySelectorAll(PLACE)].flatMap((place) => [...place.querySelectorAll(TEXT)].flatMap(sentences));
    const now = own ? all.findIndex((each) => each.element === chosen.element && each.start === chosen.start) : -1;
    const next = begin ? all.find((each) => inSight(boxOf(each))) ?? all[0] : all[now + step];
    if (next) show(next);
  });
  button.addEventListener("blur", () => setTimeout(() => document.activeElement !== button && hide()));
  button.addEventListener("click", () => chosen && go(chosen));
  return () => gone.abort();
}
