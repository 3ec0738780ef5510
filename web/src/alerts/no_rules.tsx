// What the page says when the process evaluates no rules: how to configure them.

const FILE = `groups:
  - name: example
    rules:
      - alert: TargetDown
        expr: up == 0
        for: 5m
        annotations: {summary: '{{ $labels.instance }} does not answer'}`;

export function NoRules() {
  return (
    <div class="empty no-rules">
      <h2>This process evaluates no rules</h2>
      <p>Start it with files of rules in the format of Prometheus or Loki:</p>
      <pre>sandur serve --rules /etc/sandur/rules --alertmanager-url http://alertmanager:9093</pre>
      <p>For example, <code>/etc/sandur/rules/example.yml</code>:</p>
      <pre tabIndex={0}>{FILE}</pre>
      <p>The server reads the files again when they change. <code>sandur rules check</code> reports errors in them. The page shows the rules of the tenant in <code>ruler.tenant</code> only.</p>
    </div>
  );
}
