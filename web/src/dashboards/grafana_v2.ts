// Dashboards of Grafana's schema version 2 (`spec.elements`, `spec.layout`) as classic JSON, which the page
// reads.
//
// Invariants: each element that a layout names is one panel in its place; one that is absent, or of an
// unknown kind, is a panel that says so. At most `ITEMS_MAX` items of layouts within each other are read.

import { type Json, isRecord, list, numberOr, record, text } from "./json.ts";

/** The most items of all layouts, and the deepest layout. More than a dashboard has panels. */
const ITEMS_MAX = 2000;
const DEPTH_MAX = 6;
/** Rows of the grid that a panel of an automatic layout takes. */
const AUTO_ROWS: Record<string, number> = { short: 5, standard: 9, tall: 14 };
const SORTS = ["disabled", "alphabeticalAsc", "alphabeticalDesc", "numericalAsc", "numericalDesc", "alphabeticalCaseInsensitiveAsc", "alphabeticalCaseInsensitiveDesc", "naturalAsc", "naturalDesc"];
const HIDES: Record<string, number> = { hideLabel: 1, hideVariable: 2 };

/** Classic JSON of a specification, and notes about what it cannot say. */
export function classicOf(spec: Json): { classic: Json; notes: string[] } {
  const time = record(spec["timeSettings"]);
  const flow = new Flow(record(spec["elements"]));
  flow.layout(record(spec["layout"]), 0);
  const annotations = list(spec["annotations"]).map((given) => ({ builtIn: record(record(given)["spec"])["builtIn"] === true ? 1 : 0 }));
  const classic = {
    title: spec["title"],
    description: spec["description"],
    time: { from: time["from"], to: time["to"] },
    refresh: time["autoRefresh"],
    links: spec["links"],
    annotations: { list: annotations },
    templating: { list: list(spec["variables"]).map((given) => variable(record(given))) },
    panels: flow.panels,
  };
  return { classic, notes: [...new Set(flow.notes)] };
}

/** Collects panels in the order of the layout; rows begin where classic JSON has panels of the type `row`. */
class Flow {
  readonly panels: Json[] = [];
  readonly notes: string[] = [];
  private items = 0;

  constructor(private readonly elements: Json) {}

  layout(layout: Json, depth: number): void {
    const spec = record(layout["spec"]);
    if (depth > DEPTH_MAX) return void this.notes.push("Layouts that are nested more deeply are not shown.");
    switch (layout["kind"]) {
      case "GridLayout":
        return this.grid(list(spec["items"]), depth);
      case "RowsLayout":
        return this.each(spec["rows"], (row) => this.row(row, row["collapse"] === true, depth));
      case "TabsLayout":
        if (list(spec["tabs"]).length > 1) this.notes.push("Tabs are shown as rows below each other.");
        return this.each(spec["tabs"], (tab) => this.row(tab, false, depth));
      case "AutoGridLayout":
      case "ResponsiveGridLayout":
        return this.automatic(spec);
      default:
        this.notes.push(`Layouts of the kind "${text(layout["kind"])}" are not supported; panels are in two columns.`);
        return this.automatic({ maxColumnCount: 2, items: Object.keys(this.elements).map((name) => ({ spec: { element: { name } } })) });
    }
  }

  private each(items: unknown, take: (spec: Json, n: number) => void): void {
    list(items).forEach((given, n) => {
      this.items += 1;
      if (this.items <= ITEMS_MAX) take(record(record(given)["spec"]), n);
      else if (this.items === ITEMS_MAX + 1) this.notes.push(`Only the first ${ITEMS_MAX} items of the layout are shown.`);
    });
  }

  private grid(items: unknown[], depth: number): void {
    this.each(items, (item) => {
      // The first versions of the schema had rows among the items of the grid.
      if (Array.isArray(item["elements"])) {
        this.begin(item, item["collapsed"] === true);
        return depth < DEPTH_MAX ? this.grid(item["elements"], depth + 1) : undefined;
      }
      const at = { x: item["x"], y: item["y"], w: item["width"], h: item["height"] };
      this.add(item, at);
    });
  }

  private automatic(spec: Json): void {
    const columns = Math.min(24, Math.max(1, Math.round(numberOr(spec["maxColumnCount"], 3))));
    const [w, h] = [Math.floor(24 / columns), AUTO_ROWS[text(spec["rowHeightMode"])] ?? 9];
    this.each(spec["items"], (item, n) => this.add(item, { x: (n % columns) * w, y: Math.floor(n / columns) * h, w, h }));
  }

  private row(row: Json, isClosed: boolean, depth: number): void {
    this.begin(row, isClosed);
    this.layout(record(row["layout"]), depth + 1);
  }

  private begin(row: Json, isClosed: boolean): void {
    this.noteCondition(row);
    // The panels follow, as those of an open row of classic JSON do.
    this.panels.push({ type: "row", title: row["title"], hideHeader: row["hideHeader"], collapsed: isClosed, repeat: repeatOf(row), panels: [] });
  }

  private add(item: Json, gridPos: Json): void {
    this.noteCondition(item);
    const name = text(record(item["element"])["name"]);
    this.panels.push({ ...panel(record(this.elements[name]), name), gridPos, repeat: repeatOf(item) });
  }

  private noteCondition(of: Json): void {
    if (isRecord(of["conditionalRendering"])) this.notes.push("Conditions under which rows and panels are hidden are not applied.");
  }
}

function repeatOf(item: Json): string {
  const repeat = record(item["repeat"]);
  return repeat["mode"] === undefined || repeat["mode"] === "variable" ? text(repeat["value"]) : "";
}

/** A panel of an element. */
function panel(element: Json, name: string): Json {
  const spec = record(element["spec"]);
  const shared = { title: spec["title"], description: spec["description"] };
  if (element["kind"] === "LibraryPanel") return { ...shared, libraryPanel: record(spec["libraryPanel"]) };
  if (element["kind"] !== "Panel") {
    return { title: name, reason: isRecord(element["spec"]) ? `Elements of the kind "${text(element["kind"])}" are not supported.` : `The layout names the element "${name}", which is not in the file.` };
  }
  const viz = record(spec["vizConfig"]);
  const data = record(record(spec["data"])["spec"]);
  const options = record(data["queryOptions"]);
  const look = record(viz["spec"]);
  return {
    ...shared,
    links: spec["links"],
    // The name of the plugin is the kind, or since v2beta1 the group.
    type: viz["kind"] === "VizConfig" ? viz["group"] : viz["kind"],
    options: look["options"],
    fieldConfig: look["fieldConfig"],
    interval: options["interval"],
    timeFrom: options["timeFrom"],
    timeShift: options["timeShift"],
    transformations: list(data["transformations"]).map((given) => ({ id: text(record(given)["group"]) || text(record(record(given)["spec"])["id"]) || text(record(given)["kind"]) })),
    targets: list(data["queries"]).map((given) => target(record(record(given)["spec"]))),
  };
}

function target(spec: Json): Json {
  const query = record(spec["query"]);
  return { ...record(query["spec"]), refId: spec["refId"], hide: spec["hidden"] === true, datasource: source(query, spec["datasource"]) };
}

/** The source of data of a query. Its type is the kind of the query, or since v2beta1 the group. */
function source(query: Json, given: unknown): Json {
  const type = query["kind"] === "DataQuery" ? text(query["group"]) : text(query["kind"]);
  const named = text(record(query["datasource"])["name"]) || text(record(given)["uid"]);
  // A variable decides which source it is.
  return named.startsWith("$") && type === "" ? { type: named } : { type: type || text(record(given)["type"]) };
}

const VARIABLES: Record<string, string> = {
  QueryVariable: "query", CustomVariable: "custom", IntervalVariable: "interval", ConstantVariable: "constant",
  TextVariable: "textbox", DatasourceVariable: "datasource", AdhocVariable: "adhoc", GroupByVariable: "groupby", SwitchVariable: "switch",
};

function variable(given: Json): Json {
  const spec = record(given["spec"]);
  const kind = text(given["kind"]);
  const type = VARIABLES[kind] ?? kind;
  const query = record(spec["query"]);
  const isQuery = type === "query" && isRecord(spec["query"]);
  return {
    ...spec,
    type,
    hide: HIDES[text(spec["hide"])] ?? 0,
    sort: Math.max(0, SORTS.indexOf(text(spec["sort"]))),
    query: type === "datasource" ? spec["pluginId"] : isQuery ? variableQuery(record(query["spec"])) : spec["query"],
    datasource: isQuery ? source(query, spec["datasource"]) : undefined,
    current: isRecord(spec["current"]) ? spec["current"] : { value: spec["current"] },
  };
}

/** The query of a variable; text that stands alone is a member of this name. */
function variableQuery(spec: Json): unknown {
  return typeof spec["__legacyStringValue"] === "string" ? spec["__legacyStringValue"] : spec;
}
