"use strict";
{
  const data = JSON.parse(document.getElementById("data").textContent);
  const text = (place) => data.texts[place];
  const number = (value) => value.toLocaleString("en-US");
  const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const byId = (id) => document.getElementById(id);

  const { stages: STAGES, verdicts: VERDICTS, knowledge: KNOWLEDGE, cuts: CUTS } = data.words;
  const NOUNS = { queue: "message", pinned: "message", facts: "fact", vector: "piece", graph: "relation" };
  const STATES = [
    ["prompt", "in the prompt"], ["memory", "in memory only"], ["lost", "lost"], ["before", "not said yet"],
  ];

  // Everything on the page is put in as text: what is said in a conversation can never become markup.
  const make = (tag, classes, ...children) => {
    const made = document.createElement(tag);
    if (classes) made.className = classes;
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  };
  // Sections that were opened stay open when another turn is shown.
  const open = new Set();
  const opening = (name, summary, fill) => {
    const made = make("details", "", make("summary", "", summary));
    const filled = () => { if (made.childElementCount === 1) made.append(...[fill()].flat()); };
    made.addEventListener("toggle", () => {
      if (made.open) filled();
      if (made.isConnected) open[made.open ? "add" : "delete"](name);
    });
    if (open.has(name)) {
      filled();
      made.open = true;
    }
    return made;
  };

  // -- the trace ------------------------------------------------------------------------------------

  const stageOf = (place) => {
    const [name, verdict, sentence, brief, rule, numbers, knowledge, turn] = data.stages[place];
    return { name, verdict, sentence: text(sentence), brief: text(brief), rule, numbers, knowledge, turn };
  };
  const rounded = (value) => (Number.isInteger(value) ? number(value) : String(Number(value.toFixed(4))));
  const numbersOf = (stage) =>
    Object.entries(stage.numbers).map(([name, value]) => `${name.replaceAll("_", " ")} ${rounded(value)}`);

  const trackOf = (track, marked) => {
    const stages = track.stages.map(stageOf);
    const cells = stages.map((stage, place) => {
      const decisive = marked && place === track.decisive ? " decisive" : "";
      const grade = stage.knowledge === "decided" ? null : make("small", "", KNOWLEDGE[stage.knowledge]);
      const cell = make("li", `stage-${stage.verdict}${decisive}`, make("b", "", STAGES[stage.name]),
        make("small", "", stage.brief), grade);
      cell.title = stage.sentence;
      return cell;
    });
    const last = stages.at(-1);
    if (last.verdict === "lost" && last.name !== "prompt")
      cells.push(make("li", "stage-not_reached", make("b", "", STAGES.prompt), make("small", "", "no")));
    return make("ol", "track", cells);
  };

  const whyOf = (track) => {
    if (track.decisive === null) return null;
    const stage = stageOf(track.stages[track.decisive]);
    const parts = [make("span", "", "Stage ", make("b", "", STAGES[stage.name]))];
    if (stage.rule) parts.push(make("span", "", "rule ", make("code", "", stage.rule)));
    for (const each of numbersOf(stage)) parts.push(make("span", "", each));
    if (stage.turn && !("turn" in stage.numbers)) parts.push(make("span", "", `turn ${number(stage.turn)}`));
    parts.push(make("span", "", KNOWLEDGE[stage.knowledge]));
    return make("p", "why", parts);
  };

  const tableOf = (track) => {
    const cell = (...children) => make("td", "", ...children);
    const rows = track.stages.map(stageOf).map((stage) =>
      make("tr", "", cell(make("b", "", STAGES[stage.name])), cell(VERDICTS[stage.verdict]), cell(stage.sentence),
        cell(stage.rule ? make("code", "", stage.rule) : null), cell(numbersOf(stage).join(", ")),
        cell(KNOWLEDGE[stage.knowledge])));
    const heads = ["Stage", "Verdict", "What happened", "Rule", "Numbers", "Known"].map((head) => make("th", "", head));
    return make("table", "", make("thead", "", make("tr", "", heads)), make("tbody", "", rows));
  };

  const otherOf = (track) =>
    make("div", "carrier", make("p", "", make("b", "", text(track.name)),
      track.words === null ? null : make("span", "quiet", ` “${shorten(text(track.words), 160)}”`)), trackOf(track, false),
      make("p", "small quiet", stageOf(track.stages[track.decisive ?? track.stages.length - 1]).sentence));

  const shorten = (words, most) => (words.length > most ? `${words.slice(0, most - 1).trimEnd()}…` : words);

  const heroOf = (trace, turn) => {
    const hero = make("section", "hero",
      make("p", "asked", `Where did “${shorten(text(data.asked), 200)}” go?`),
      make("h1", "", text(trace.sentence).replaceAll(" < ", "\u00a0<\u00a0")), make("p", "small quiet", trace.notes.map(text).join(" ")));
    hero.dataset.verdict = trace.verdict;
    const [first, ...others] = trace.tracks;
    if (first) {
      hero.append(trackOf(first, true), ...[whyOf(first) ?? []].flat());
      hero.append(opening("stages", "Every stage in words", () => tableOf(first)));
    }
    if (others.length || trace.more)
      hero.append(opening("others", `Other carriers of the same information (${number(others.length + trace.more)})`, () => [
        ...others.map(otherOf),
        ...(trace.more ? [make("p", "small quiet", `And ${number(trace.more)} more, which got no further than these.`)] : []),
      ]));
    return hero;
  };

  // -- the prompt -----------------------------------------------------------------------------------

  const entryOf = (entry, gone) => {
    const [place, score] = Array.isArray(entry) ? entry : [entry, null];
    const [words, tokens, turn, role] = data.entries[place];
    const notes = [role, turn ? `turn ${number(turn)}` : null, score === null ? null : `score ${score.toFixed(2)}`,
      tokens === null ? null : count(tokens, "token"), gone ? "cut" : null].filter(Boolean);
    return make("div", gone ? "entry gone" : "entry", make("span", "small quiet", notes.join(" · ")), make("p", "", text(words).trim()));
  };

  const laneOf = (prompt) => {
    const scale = Math.max(prompt.limit, prompt.sent, prompt.asked, 1);
    const share = (value) => `${(100 * value) / scale}%`;
    const lane = make("div", "lane");
    const box = (classes, start, length, label, title) => {
      if (length <= 0) return;
      const made = make("i", classes, label ? [make("b", ""), make("span", "", label)] : null);
      made.style.left = share(start);
      made.style.width = share(length);
      made.title = title;
      lane.append(made);
    };
    let start = 0;
    box("free", 0, prompt.limit, "", `Free: ${number(Math.max(0, prompt.limit - prompt.sent))}`);
    for (const part of prompt.parts) {
      box(`of-${part.kind}`, start, part.granted, text(part.name), `${text(part.name)}: ${amount(part)}`);
      start += part.granted;
    }
    box("of-custom", start, prompt.around, "", `Markup: ${number(prompt.around)}`);
    box("cut", prompt.sent, prompt.asked - prompt.sent, "", `Cut: ${number(prompt.asked - prompt.sent)}`);
    const limit = make("u", "");
    limit.style.left = `calc(${share(prompt.limit)} - 2px)`;
    lane.append(limit, make("em", "", `limit ${number(prompt.limit)}`));
    lane.setAttribute("role", "img");
    lane.setAttribute("aria-label", `Sent ${number(prompt.sent)} of ${count(prompt.limit, "token")}.`);
    return lane;
  };

  const amount = (part) => number(part.granted) + (part.asked > part.granted ? ` of ${number(part.asked)}` : "");

  const lostFrom = (prompt) => {
    const lost = new Map();
    for (const cut of prompt.cuts) lost.set(cut.part, (lost.get(cut.part) ?? 0) + cut.tokens);
    return [...lost].map(([part, tokens]) => `${number(tokens)} from ${text(prompt.parts[part].name)}`).join(", ");
  };

  const sentenceOf = (prompt) => {
    if (prompt.cuts.length)
      return `Parts asked for ${count(prompt.asked, "token")}, ${number(prompt.asked - prompt.limit)} over the limit. ` +
        `Cut: ${lostFrom(prompt)}.`;
    const over = prompt.sent - prompt.limit;
    return over > 0 ? `${count(over, "token")} over the limit; nothing could be cut.`
      : `Everything fitted. ${count(-over, "token")} free.`;
  };

  const budgetOf = (prompt, turn) => {
    const [queue, flush] = turn.queue;
    const happened = [
      turn.flushed ? `${count(turn.flushed, "message")} flushed from the queue` : null,
      turn.learned ? `${number(turn.learned)} learned` : null,
    ].filter(Boolean);
    const tokens = `Queue after this turn ${number(queue)}, flushed above ${number(flush)}.`;
    return make("section", "card budget",
      make("div", "head", make("h2", "", "Token budget"),
        make("span", "", `${number(prompt.sent)} of ${number(prompt.limit)} sent`)),
      laneOf(prompt), make("p", "", sentenceOf(prompt)),
      make("p", "small quiet", [tokens, happened.length ? `In this turn: ${happened.join(", ")}.` : ""].join(" ")),
      prompt.notes.map((note) => make("p", "note small", text(note))));
  };

  const partsOf = (prompt) =>
    make("section", "card",
      make("div", "head", make("h2", "", "Parts of the prompt"), make("span", "small quiet", "tokens")),
      make("ol", "parts", prompt.parts.map((part) => {
        const kind = part.kind;
        const noun = NOUNS[kind];
        const notes = [
          part.kept.length ? (noun ? count(part.kept.length, noun) : "text")
            : kind === "reserved" ? "not written by memory" : "empty",
          part.priority === null ? null : part.priority ? `priority ${part.priority}` : "never cut",
          part.asked > part.granted ? `cut ${number(part.asked - part.granted)}` : null,
        ].filter(Boolean);
        const summary = [make("i", `of-${kind}`), make("b", "", text(part.name)), make("span", "", amount(part)),
          make("span", "small quiet", notes.join(" · "))];
        return make("li", "", opening(`part ${part.name}`, summary, () =>
          [...part.kept.map((entry) => entryOf(entry, false)), ...part.cut.map((entry) => entryOf(entry, true))]));
      })));

  const cutsOf = (prompt) =>
    make("section", "card",
      make("h2", "", prompt.cuts.length ? "Cuts, in order" : "Cuts"),
      prompt.cuts.length ? make("ol", "cuts", prompt.cuts.map((cut, place) => {
        const part = prompt.parts[cut.part];
        const rank = part.priority ? ` · priority ${part.priority}` : "";
        return make("li", "", make("p", "", make("b", "", `${place + 1} ${text(part.name)}`), rank),
          make("p", "small", `asked ${number(part.asked)}, granted ${number(part.granted)}`),
          make("p", "small", `${number(cut.over)} too many; ${number(cut.tokens)} removed: ${CUTS[cut.rule] ?? cut.rule}`),
          cut.entries.map((entry) => entryOf(entry, true)));
      })) : make("p", "quiet", "Nothing was cut."));

  const saidOf = (turn) =>
    make("section", "card", make("h2", "", `Said in turn ${number(turn.turn)}`),
      make("ol", "said", turn.said.map((place) => {
        const [words, , , role] = data.entries[place];
        return make("li", role ?? "", make("span", "small quiet", role ?? ""), make("p", "", text(words)));
      })));

  // -- one turn at a time ---------------------------------------------------------------------------

  const last = data.turns.length - 1;
  let shown = data.start;

  const allFromOne = data.turns.every((turn, place) => turn.turn === place + 1);
  const placeOf = (turn) => (allFromOne ? ` of ${number(last + 1)}` : ` · ${number(shown + 1)} of ${number(last + 1)}`);

  const show = (place) => {
    shown = Math.min(last, Math.max(0, place));
    const turn = data.turns[shown];
    const { prompt, trace } = turn;
    const left = prompt ? [budgetOf(prompt, turn), partsOf(prompt)] : [make("p", "calm", "No prompt was built in this turn.")];
    const right = [prompt ? cutsOf(prompt) : null, turn.said.length ? saidOf(turn) : null];
    byId("page").replaceChildren(...[trace ? heroOf(trace, turn) : []].flat(),
      make("div", "columns", make("div", "", left), make("div", "", right)));
    byId("turn").replaceChildren(`Turn ${number(turn.turn)}`, ...(last ? [make("span", "", placeOf(turn))] : []));
    byId("before").disabled = shown === 0;
    byId("after").disabled = shown === last;
    byId("range").value = shown;
    byId("range").setAttribute("aria-valuetext", `Turn ${turn.turn}`);
    [...byId("strip").children].forEach((cell, at) => cell.classList.toggle("here", at === shown));
  };

  const stateOf = (turn) => turn.trace?.state ?? (turn.prompt === null ? "none" : turn.prompt.cuts.length ? "cut" : "fits");

  byId("strip").append(...data.turns.map((turn) => make("i", stateOf(turn))));
  const states = new Set(data.turns.map(stateOf));
  const legend = data.asked === null ? [["cut", "something was cut"]] : STATES;
  byId("legend").append(...legend.filter(([state]) => states.has(state)).map(([state, means]) =>
    make("span", "", make("i", state), means)));
  byId("range").max = last;
  byId("range").addEventListener("input", (event) => show(Number(event.target.value)));
  byId("before").addEventListener("click", () => show(shown - 1));
  byId("after").addEventListener("click", () => show(shown + 1));
  document.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }[event.key];
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(shown + step);
  });
  if (!last) document.querySelector(".stepper").hidden = true;

  const dark = () => (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { byId("theme").textContent = dark() ? "Light" : "Dark"; };
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    nameTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
  nameTheme();

  byId("title").append(text(data.title), last ? "" : make("span", "", ` · turn ${number(data.turns[0].turn)}`));
  document.title = `${text(data.title)} · Memory Inspector`;
  byId("foot").append("Saved from Memory Inspector. This file opens without a network and sends nothing.",
    data.replaced ? ` Words were replaced: ${number(data.replaced)}.` : "",
    last ? " ← and → step through the turns." : "");
  show(data.start);
}
