// The editor of queries: CodeMirror inside a shadow root. There its styles are constructed style sheets,
// which the strict content security policy allows.
//
// The text belongs to the editor: what a person types is reported and never written back, since a late
// write would undo the next key. `value` replaces the text when it or `version` changes.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { Annotation, Compartment, EditorState, type Extension, Prec } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

export interface EditorProps {
  value: string;
  version: string | number;
  label: string;
  hint: string;
  language: Extension;
  onChange: (value: string) => void;
  onRun: () => void;
}

/** Marks a change that does not come from the person. */
const replaced = Annotation.define<boolean>();

const highlight = HighlightStyle.define([
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.keyword, tags.function(tags.variableName), tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.number, tags.literal], color: "var(--code-number)" },
  { tag: [tags.labelName, tags.attributeName], color: "var(--code-label)" },
  { tag: [tags.operator, tags.arithmeticOperator, tags.logicOperator], color: "var(--muted)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { fontSize: "13px", backgroundColor: "transparent", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", maxHeight: "160px" },
  ".cm-content": { padding: "6px 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0 10px" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  ".cm-placeholder": { color: "var(--muted)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--selection)",
  },
  ".cm-matchingBracket": { backgroundColor: "var(--selection) !important" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    boxShadow: "0 4px 16px var(--shadow)",
    overflow: "hidden",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px", maxHeight: "260px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 8px !important" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent) !important",
    color: "var(--on-accent) !important",
  },
  ".cm-completionDetail": { color: "inherit", opacity: "0.8", fontStyle: "normal", marginLeft: "12px" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
  ".cm-completionInfo": { maxWidth: "320px", padding: "6px 8px", fontSize: "12px" },
  ".cm-completionIcon": { display: "none" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--error)" },
  ".cm-diagnostic": { padding: "6px 10px", borderLeft: "3px solid var(--error)" },
});

/** Longest query that the server accepts. */
const QUERY_MAX = 128 << 10;

export function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const language = useRef(new Compartment());
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const outer = host.current;
    if (!outer) return;
    const root = outer.shadowRoot ?? outer.attachShadow({ mode: "open" });
    const run = () => {
      latest.current.onRun();
      return true;
    };
    const created = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          history(),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ icons: false, maxRenderedOptions: 80 }),
          syntaxHighlighting(highlight),
          look,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": latest.current.label, spellcheck: "false" }),
          EditorState.changeFilter.of((change) => change.newDoc.length <= QUERY_MAX),
          placeholder(latest.current.hint),
          language.current.of(latest.current.language),
          Prec.highest(keymap.of([{ key: "Mod-Enter", run }])),
          // The list of completions is asked first; it takes the key only while it is open.
          keymap.of([
            ...completionKeymap,
            { key: "Enter", run },
            { key: "Shift-Enter", run: (editor) => (editor.dispatch(editor.state.replaceSelection("\n")), true) },
            { key: "Escape", run: (editor) => (editor.contentDOM.blur(), false) },
            ...closeBracketsKeymap,
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          EditorView.updateListener.of((update) => {
            const isTyped = update.transactions.some((change) => change.docChanged && !change.annotation(replaced));
            if (isTyped) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = created;
    return () => {
      created.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === props.value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: props.value }, annotations: replaced.of(true) });
  }, [props.value, props.version]);

  useEffect(() => {
    view.current?.dispatch({ effects: language.current.reconfigure(props.language) });
  }, [props.language]);

  return <div class="editor" ref={host} data-label={props.label} />;
}
