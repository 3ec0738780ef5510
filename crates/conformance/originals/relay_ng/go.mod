module github.com/grafana/carbon-relay-ng

go 1.21
