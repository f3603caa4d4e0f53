// What is typed in a dialog, or as the words of a fact, reaches the server while it is typed, before Esc closes the
// dialog and before the page is left: a field of Streamlit's gives its value only when it is left, or on (Ctrl+)Enter.
// The words that Review asks for have the focus at once. Mounted by ui/components.py.

const PAUSE = 400; // ms without a key
const PATIENCE = 3000; // ms that a click waits for its button, and after the last key
const TEXT = "[data-testid=stTextInput] input";
// A line of text is given only where it is part of a draft: elsewhere Enter may do something.
const GIVEN = `textarea, input[type=number], [role=dialog]:has([class*="st-key-drawer_actions_"]) ${TEXT}`;

const FIELDS = '[role=dialog] :is(textarea, input), [class*="st-key-facts__"] textarea';
const inside = (field) => field?.matches?.(FIELDS);

function give(field) {
  const enter = { key: "Enter", code: "Enter", keyCode: 13, which: 13, ctrlKey: true, bubbles: true, cancelable: true };
  field.dispatchEvent(new KeyboardEvent("keydown", enter));
}

// A button that waits for the value of the field that was just typed in is pressed once it can be: the click that
// leaves the field would be lost.
function press(event, field) {
  const under = document.elementsFromPoint(event.clientX, event.clientY);
  const button = under.find((each) => each.matches('[class*="st-key-drawer_actions_"] button:disabled'));
  if (!button) return;
  const place = button.closest('[class*="st-key-"]').className.match(/st-key-[^ ]+/)[0];
  const until = Date.now() + PATIENCE;
  give(field);
  const look = setInterval(() => {
    const now = document.querySelector(`.${CSS.escape(place)} button`);
    if (now && !now.disabled) now.click();
    if (!now?.disabled || Date.now() > until) clearInterval(look);
  }, 50);
}

const ASKED = ".st-key-facts__review textarea"; // a key opened it: what is typed next is meant for it

export default function () {
  const gone = new AbortController();
  let known = null;
  const opened = new MutationObserver(() => {
    const field = document.querySelector(ASKED);
    if (field && field !== known) {
      field.focus();
      field.setSelectionRange(field.value.length, field.value.length);
    }
    known = field;
  });
  opened.observe(document.body, { childList: true, subtree: true });
  gone.signal.addEventListener("abort", () => opened.disconnect());
  const listen = (type, act) => document.addEventListener(type, act, { capture: true, signal: gone.signal });
  let pause, typed, at = 0;
  listen("input", ({ target, isComposing }) => {
    clearTimeout(pause);
    if (!inside(target)) return;
    [typed, at] = [target, Date.now()];
    if (!isComposing && target.matches(GIVEN)) pause = setTimeout(give, PAUSE, target);
  });
  listen("pointerdown", (event) => {
    if (Date.now() - at < PATIENCE && typed?.isConnected) press(event, typed);
  });
  listen("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing && inside(document.activeElement)) document.activeElement.blur();
  });
  const leaving = () => {
    if (typed?.isConnected && typed.matches(`${GIVEN}, ${TEXT}`)) give(typed);
  };
  window.addEventListener("beforeunload", leaving, { signal: gone.signal });
  return () => {
    clearTimeout(pause);
    gone.abort();
  };
}
