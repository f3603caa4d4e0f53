// What is watched, one cell a turn: in the prompt, in memory only, lost, or as it is planned. Told to by ui/watching.py.

const STATES = {
  p: ["prompt", "in the prompt"],
  m: ["memory", "in memory, not in the prompt"],
  l: ["lost", "not in memory"],
  b: ["before", "nobody had said it yet"],
  n: ["none", "no prompt was built"],
  o: ["out", "not in the prompt"],
  u: ["unknown", "unknown until it is played"],
};

const listening = new WeakMap(); // by place: called again whenever the data change

export default function ({ data, parentElement, setTriggerValue }) {
  const { session, target, first, shown, states } = data;
  listening.get(parentElement)?.abort();
  const gone = new AbortController();
  listening.set(parentElement, gone);

  const row = parentElement.querySelector(".presence");
  row.replaceChildren(...[...states].map((letter, place) => {
    const [name, words] = STATES[letter];
    const cell = document.createElement("i");
    cell.className = first + place === shown ? `${name} shown` : name;
    cell.title = `Turn ${(first + place).toLocaleString("en")}: ${words}`;
    return cell;
  }));
  const counted = [...states].filter((letter) => letter === "p").length;
  row.setAttribute("aria-label", `In the prompts of ${counted} of ${states.length} turns. Enter: the last turn it was in`);

  function go(turn) {
    setTriggerValue("turn", { session, target, turn });
  }

  row.addEventListener("click", (event) => {
    const box = row.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * states.length);
    go(first + Math.min(states.length - 1, Math.max(0, place)));
  }, { signal: gone.signal });
  row.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      go(first + states.length - 1);
    }
  }, { signal: gone.signal });
  return () => gone.abort();
}
