//! Reads files of every format: tests the routing and the notes about settings that have no effect.

use std::path::Path;

use super::{Format, read};
use crate::lookup::lookup;
use crate::model::{Encryption, Packing, Routing, Stage, Transport};
use crate::router::{End, Router, Scratch};

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
        Self(folder)
    }

    fn read(&self, name: &str) -> Result<Routing, String> {
        read(&self.0.path().join(name), None, None).map_err(|error| {
            let folder = format!("{}/", self.0.path().display());
            error.to_string().replace(&folder, "")
        })
    }
}

fn of(files: &[(&str, &str)]) -> Routing {
    Folder::with(files).read(files[0].0).unwrap_or_else(|error| panic!("{error}"))
}

/// Notes as line, text and whether they are grave.
fn notes(routing: &Routing) -> Vec<(usize, &str, bool)> {
    routing.notes.iter().map(|note| (note.line, note.what.as_str(), note.is_grave())).collect()
}

/// The targets of a name, each with the name that it gets.
fn sent(router: &Router, name: &str) -> String {
    let found = lookup(router, name.as_bytes(), &mut Scratch::default());
    let targets: Vec<String> =
        found.targets.iter().map(|(target, name)| format!("{target}:{name}")).collect();
    let end = found.end.map_or(String::new(), |end| format!(" {end:?}"));
    let computed =
        if found.computed.is_empty() { String::new() } else { format!(" + {}", found.computed.join(",")) };
    format!("{}{computed}{end}", targets.join(" "))
}

#[test]
fn carbon_rules_apply_in_the_order_of_the_file() {
    let routing = of(&[
        (
            "carbon.conf",
            "[cache]\nUSER = x\n[relay]\nLINE_RECEIVER_PORT = 2013\nPICKLE_RECEIVER_PORT = 0\n\
             USER = carbon\n\
             RELAY_METHOD = rules\nUSE_WHITELIST = True\n\
             DESTINATIONS = h1:2004:a, h2:2004,\n  [::1]:2104:b\n",
        ),
        (
            "relay-rules.conf",
            "# rules\n[web]\npattern = ^WEB\\.\ndestinations = h1:2004:a, h9:1:z\ncontinue = true\n\
             [bad]\npattern = (?=x)\ndestinations = h2:2004\n[default]\ndefault = true\n\
             destinations = h2:2004, [::1]:2104:b\n",
        ),
        ("blacklist.conf", "#\n^tmp\\.\n"),
    ]);
    assert_eq!(routing.listeners.len(), 1);
    assert_eq!(routing.listeners[0].address, "0.0.0.0:2013");
    let expected = [(6, "USER", false), (4, "h9:1:z", false), (7, "(?=x)", true)];
    assert_eq!(notes(&routing), expected);
    assert!(routing.notes[2].to_string().contains("relay-rules.conf:7: '(?=x)' cannot be honoured"));
    let router = Router::new(routing).unwrap();
    assert_eq!(sent(&router, "web.a"), "h1:2004=a:web.a h2:2004:web.a [::1]:2104=b:web.a");
    assert_eq!(sent(&router, "db.a"), "h2:2004:db.a [::1]:2104=b:db.a");
    assert_eq!(sent(&router, "tmp.a"), " Blocked");
}

/// Configuration templates write such files. All but the first option of a section became part of the
/// first one's value.
#[test]
fn indented_options_of_carbon_files_are_read_as_by_carbon() {
    let carbon = "  [relay]\n  RELAY_METHOD = rules\n  LINE_RECEIVER_PORT = 2013\n\x20 \
                  PICKLE_RECEIVER_PORT = 0\n\x20 \
                  DESTINATIONS = h1:2004:a,\n    h2:2004\n";
    let rules = "[web]\n  pattern = ^web\\.\n  destinations = h1:2004:a\n  continue = true\n\
                 [default]\n  default = true\n  destinations = h2:2004\n";
    let routing = of(&[("carbon.conf", carbon), ("relay-rules.conf", rules)]);
    assert_eq!(notes(&routing), []);
    assert_eq!(
        routing.listeners.iter().map(|one| one.address.as_str()).collect::<Vec<_>>(),
        ["0.0.0.0:2013"]
    );
    let router = Router::new(routing).unwrap();
    assert_eq!(sent(&router, "web.x"), "h1:2004=a:web.x h2:2004:web.x");
    assert_eq!(sent(&router, "db.x"), "h2:2004:db.x");
    let twice = Folder::with(&[("carbon.conf", "[relay]\nDESTINATIONS = h1:2004\nDESTINATIONS = h2:2004\n")]);
    assert!(twice.read("carbon.conf").unwrap_err().starts_with("carbon.conf:3: the option 'destinations'"));
}

#[test]
fn an_instance_inherits_the_options_of_its_program() {
    let carbon = "[relay]\nRELAY_METHOD = consistent-hashing\nDESTINATIONS = h:1:a\nLINE_RECEIVER_PORT = 1\n\
                  [relay:a]\nLINE_RECEIVER_PORT = 2\n[relay:b]\nLINE_RECEIVER_PORT = 3\n";
    let folder = Folder::with(&[("carbon.conf", carbon)]);
    let read = |section| read(&folder.0.path().join("carbon.conf"), None, section);
    for (section, port) in [(None, 2), (Some("relay"), 2), (Some("relay:a"), 2), (Some("relay:b"), 3)] {
        let routing = read(section).unwrap();
        assert_eq!(routing.listeners[0].address, format!("0.0.0.0:{port}"), "{section:?}");
        assert_eq!(routing.targets.len(), 1);
    }
    assert!(read(Some("relay:c")).unwrap_err().to_string().contains("no section [relay:c]"));
}

#[test]
fn a_repeated_section_of_rewrite_rules_replaces_the_first() {
    let router = Router::new(of(&[
        ("carbon.conf", "[aggregator]\nDESTINATIONS = h:2004\n"),
        ("rewrite-rules.conf", "[pre]\n^a = b\n[post]\nx$ = y\n[PRE]\n^c = d\n"),
    ]))
    .unwrap();
    assert_eq!([sent(&router, "a.x"), sent(&router, "c.x")], ["h:2004:a.y", "h:2004:d.y"]);
}

#[test]
fn aggregated_consistent_hashing_uses_the_names_of_sums() {
    let conf = |method: &str| {
        format!(
            "[relay]\nRELAY_METHOD = {method}\nREPLICATION_FACTOR = 2\nDIVERSE_REPLICAS = False\n\
             DESTINATIONS = 10.0.0.1:2004:a, 10.0.0.2:2004:a, 10.0.0.3:2004:a, 10.0.0.4:2004:a\n"
        )
    };
    let rules =
        "<env>.all.cpu (60) = sum <env>.*.cpu\n<env>.every.<<rest>> (60) = nothing x.<env>.<<rest>>\n";
    let plain = of(&[("carbon.conf", &conf("consistent-hashing"))]);
    let summed =
        of(&[("carbon.conf", &conf("aggregated-consistent-hashing")), ("aggregation-rules.conf", rules)]);
    assert_eq!(notes(&summed).len(), 1, "{:?}", summed.notes);
    let (plain, summed) = (Router::new(plain).unwrap(), Router::new(summed).unwrap());
    let whole = sent(&plain, "prod.all.cpu");
    for host in 0..20 {
        let name = format!("prod.web{host}.cpu");
        assert_eq!(sent(&summed, &name), whole.replace("prod.all.cpu", &name));
    }
    assert_eq!(sent(&summed, "a.b.c"), sent(&plain, "a.b.c"));
}

#[test]
fn an_aggregator_of_carbon_rewrites_aggregates_and_hashes() {
    let router = Router::new(of(&[
        (
            "carbon.conf",
            "[aggregator]\nDESTINATIONS = h:2004\nDESTINATION_PROTOCOL = line\nFORWARD_ALL = False\n",
        ),
        ("rewrite-rules.conf", "[pre]\n^collectd\\.(\\w+) = servers.\\1\n[post]\n_sum$ =\n"),
        ("aggregation-rules.conf", "servers.all.<m>_sum (10) = sum servers.*.<m>\n"),
    ]))
    .unwrap();
    assert_eq!(sent(&router, "collectd.web1.cpu"), " + servers.all.cpu_sum Blocked");
    let Stage::Aggregate(aggregate) = &router.routing().stages[1] else { panic!("the second is the sum") };
    assert_eq!(aggregate.interval, 10);
    let mut scratch = Scratch::default();
    struct Sum(String);
    impl crate::router::RouteSink for Sum {
        fn is_live(&self, _: usize) -> bool {
            true
        }
        fn is_valid(&mut self, _: &crate::model::Validation, _: &[u8]) -> bool {
            true
        }
        fn send(&mut self, _: usize, name: &[u8]) {
            self.0 = String::from_utf8_lossy(name).into_owned();
        }
        fn aggregate(&mut self, _: usize, _: usize, _: &[u8]) {}
        fn ended(&mut self, _: End) {}
    }
    let mut sum = Sum(String::new());
    router.route(3, b"servers.all.cpu_sum", &mut scratch, &mut sum);
    assert_eq!(sum.0, "servers.all.cpu");
}

const RELAY: &str = "
cluster dc-old carbon_ch replication 2 10.1.0.1 10.1.0.2=b 10.1.0.3:2103 ;
cluster dc-new fnv1a_ch dynamic 10.2.0.1:2003=a 10.2.0.2:2003=b proto udp;
cluster any any_of 10.3.0.1:1 10.3.0.2:2 transport gzip ssl; # comment
cluster log file /tmp/x;
listen type linemode 2005 proto tcp 127.0.0.1:2006 proto udp /tmp/sock proto unix;
match ^tmp\\. send to blackhole;
match * validate ^[0-9]+ else drop;
rewrite ^server\\.([a-z]+)\\.(.*)$ into role.\\_1.\\2;
match \"^role\\.web\" ^web route using any\\.1 send to dc-new stop;
aggregate ^sys\\.([^.]+)\\.(cpu|mem)$ every 10 seconds expire after 35 seconds
    timestamp at middle of bucket
    compute sum write to sums.\\2
    compute percentile95 write to p95.\\2
    send to any
    stop;
match * send to dc-old any stop;
statistics submit every 30 seconds prefix with carbon.relays.\\.1 send to any;
";

#[test]
fn carbon_c_relay_statements_apply_in_order() {
    let routing = of(&[("relay.conf", RELAY)]);
    let grave: Vec<usize> =
        routing.notes.iter().filter(|note| note.is_grave()).map(|note| note.line).collect();
    assert_eq!(grave, [5], "{:?}", routing.notes);
    let wrapped: Vec<bool> = routing.targets.iter().map(|target| target.packing == Packing::Gzip).collect();
    assert_eq!(wrapped.iter().filter(|is_gzip| **is_gzip).count(), 1, "{:?}", routing.targets);
    assert!(routing.targets.iter().any(|target| target.encryption == Some(Encryption::default())));
    assert_eq!(routing.listeners[0].address, "0.0.0.0:2005");
    assert_eq!(routing.listeners[1].transport, Transport::Udp);
    assert_eq!(routing.statistics.prefix, "carbon.relays.HOST");
    assert_eq!(routing.statistics.every.map(|every| every.as_secs()), Some(30));
    let router = Router::new(routing).unwrap();
    assert_eq!(sent(&router, "tmp.x"), " Nowhere");
    let web = sent(&router, "server.web.a.b");
    assert!(web.starts_with("10.2.0.") && web.ends_with(":role.web.a.b"), "{web}");
    assert_eq!(sent(&router, "sys.h1.cpu"), " + sums.cpu,p95.cpu");
    assert_eq!(sent(&router, "other").split(' ').count(), 3);
}

#[test]
fn carbon_c_relay_includes_files_in_place_and_endless_includes_fail() {
    let folder = Folder::with(&[
        ("relay.conf", "include a*.conf; match * send to last;"),
        ("a1.conf", "cluster last forward h1;"),
        ("a2.conf", "cluster other forward h2; match x send to other;"),
        ("loop.conf", "include loop.conf;"),
    ]);
    let router = Router::new(folder.read("relay.conf").unwrap()).unwrap();
    assert_eq!(sent(&router, "x"), "h2:2003:x h1:2003:x");
    assert!(folder.read("loop.conf").unwrap_err().contains("loop.conf:1: more than 1000 files"));
}

const RELAY_NG: &str = "
listen_addr = '0.0.0.0:2003'
spool_dir = '/var/spool/x'
admin_addr = '0.0.0.0:2004'
blocklist = ['prefix collectd.localhost', 'regex ^foo\\..*\\.cpu+']
[init]
cmds = ['addRoute sendAllMatch x  y:1']
[[rewriter]]
old = 'testold'
new = 'testnew'
not = ''
max = -1
[[rewriter]]
old = '/^a\\.(\\w+)/'
new = 'b.${1}'
max = -1
[[aggregation]]
function = 'sum'
regex = '^stats\\.timers\\.(app|proxy)[0-9]+\\.requests\\.(.*)'
format = 'stats.timers._sum_$1.requests.$2'
interval = 10
wait = 20
dropRaw = true
[[route]]
key = 'first'
type = 'sendFirstMatch'
sub = '='
destinations = ['h1:2003 prefix=prod. spool=true pickle=true', 'h2:2003 prefix=staging. flush=5']
[[route]]
key = 'ring'
type = 'consistentHashing-v2'
destinations = ['10.0.0.1:2003', '10.0.0.2:2003:b']
[[route]]
key = 'cloud'
type = 'grafanaNet'
addr = 'x'
";

#[test]
fn carbon_relay_ng_tables_are_read() {
    let routing = of(&[("relay.ini", RELAY_NG)]);
    let expected = [
        (7, "addRoute sendAllMatch x  y:1", true),
        (28, "flush=5", false),
        (33, "cloud: type grafanaNet", true),
        (4, "admin_addr", false),
    ];
    assert_eq!(notes(&routing), expected);
    let router = Router::new(routing).unwrap();
    assert_eq!(sent(&router, "collectd.localhost.x"), " Blocked");
    assert_eq!(sent(&router, "foo.x.cpuu"), " Blocked");
    let both = sent(&router, "staging.testold=1");
    assert!(both.starts_with("h2:2003:staging.testnew=1 10.0.0."), "{both}");
    assert!(sent(&router, "a.c.d").ends_with(":b.c.d"));
    assert_eq!(sent(&router, "stats.timers.app7.requests.x"), " + stats.timers._sum_app.requests.x");
}

#[test]
fn every_format_sets_compression_and_encryption_of_connections() {
    let wrapped = |name: &str, text: &str| {
        let routing = of(&[(name, text)]);
        let target = routing.targets[0].clone();
        (
            target.packing,
            target.encryption,
            routing.notes.iter().map(|note| note.is_grave()).collect::<Vec<_>>(),
        )
    };
    let files = |ca: Option<&str>, identity: Option<(&str, &str)>| {
        let identity = identity.map(|(certificate, key)| (certificate.into(), key.into()));
        Some(Encryption { authorities: ca.map(Into::into), identity })
    };
    let relay = |transport: &str| {
        wrapped("relay.conf", &format!("cluster c forward h:1 {transport}; match * send to c;"))
    };
    assert_eq!(relay("transport lz4"), (Packing::Lz4, None, vec![]));
    assert_eq!(relay("transport plain mtls c.pem k.pem").1, files(None, Some(("c.pem", "k.pem"))));
    assert_eq!(relay("transport snappy"), (Packing::Plain, None, vec![true]));
    assert_eq!(relay("proto udp transport gzip"), (Packing::Plain, None, vec![true]));
    let carbon = |lines: &str| {
        wrapped(
            "carbon.conf",
            &format!("[relay]\nRELAY_METHOD = consistent-hashing\nDESTINATIONS = h:2004:a\n{lines}\n"),
        )
    };
    assert_eq!(
        carbon("DESTINATION_TRANSPORT = ssl\nDESTINATION_SSL_CA = ca.pem").1,
        files(Some("ca.pem"), None)
    );
    assert_eq!(carbon("DESTINATION_TRANSPORT = none").1, None);
    assert_eq!(carbon("DESTINATION_TRANSPORT = ssh"), (Packing::Plain, None, vec![true]));
    let folder = |lines: &str| {
        let cluster = "[[cluster]]\nname = 'x'\nmethod = 'all'\ntargets = ['h']\n";
        Folder::with(&[("own.toml", &format!("{cluster}{lines}"))]).read("own.toml")
    };
    let own = folder("compression = 'zstd'\ntls_ca_file = 'ca.pem'\n").unwrap().targets[0].clone();
    assert_eq!((own.packing, own.encryption), (Packing::Zstd, files(Some("ca.pem"), None)));
    for (wrong, text) in [
        ("compression = 'brotli'", "no compression 'brotli'"),
        ("tls_key_file = 'k.pem'", "set together"),
        ("tls = false\ntls_ca_file = 'ca.pem'", "'tls' is false"),
    ] {
        assert!(folder(wrong).unwrap_err().contains(text), "{wrong}");
    }
}

#[test]
fn our_own_format_has_zones_and_imports_another_format() {
    let folder = Folder::with(&[
        ("relay.conf", "cluster old carbon_ch h1 h2; match * send to old;"),
        (
            "sandur.toml",
            "import = 'relay.conf'\nlisten = ['127.0.0.1:2003']\nspool_directory = '/x'\n\
             [[cluster]]\nname = 'new'\nring = 'carbon/carbon_ch'\ncopies = 2\nreplicas = 'zones'\n\
             connections = 4\ntargets = ['10.0.0.1:2003@a', '10.0.0.2:2003@a', '10.0.0.3:2003=x@b']\n\
             [[stage]]\nrewrite = '^x\\.'\ninto = 'y.'\n\
             [[stage]]\nmatch = ['^y']\nto = ['new']\nstop = true\n",
        ),
        ("wrong.toml", "[[cluster]]\nname = 'x'\nmethod = 'all'\ntargets = ['h']\nnode = 1\n"),
        ("ring.toml", "[[cluster]]\nname = 'x'\nring = 'foo'\ntargets = ['h']\n"),
    ]);
    let router = Router::new(folder.read("sandur.toml").unwrap()).unwrap();
    assert_eq!(router.routing().listeners.len(), 4, "with those of the imported file");
    let found = sent(&router, "x.1");
    assert!(
        found.contains("10.0.0.3:2003=x:y.1") && !found.contains('h'),
        "our own stages are first: {found}"
    );
    assert!(sent(&router, "z").starts_with('h'));
    assert_eq!(folder.read("wrong.toml").unwrap_err(), "wrong.toml:5: there is no key 'node' here");
    assert_eq!(folder.read("ring.toml").unwrap_err(), "ring.toml:1: there is no ring 'foo'");
}

#[test]
fn a_validation_is_read_from_both_formats_that_have_it() {
    let relay = "cluster c forward h:1;\nmatch * validate ^[0-9]+\\ [0-9]+$ else log;\n\
                 match * validate (?=x) else drop send to c stop;";
    let routing = of(&[("relay.conf", relay)]);
    assert_eq!(notes(&routing), [(3, "(?=x)", true)], "an expression that cannot be honoured gives a note");
    let own = "[[cluster]]\nname = 'c'\nmethod = 'all'\ntargets = ['h:1']\n\
               [[stage]]\nvalidate = '^[0-9]+ [0-9]+$'\nlog_invalid = true\n\
               [[stage]]\nvalidate = '^[0-9]'\nto = ['c']\n";
    for (routing, is_last_stopping) in [(routing, true), (of(&[("own.toml", own)]), false)] {
        let route = |stage: &Stage| match stage {
            Stage::Route(route) => route.clone(),
            other => panic!("{other:?}"),
        };
        let routes: Vec<_> = routing.stages.iter().map(route).collect();
        let first = routes[0].validation.as_ref().unwrap();
        assert_eq!(
            (first.logs, first.data.matches(b"1 2"), first.data.matches(b"1.5 2")),
            (true, true, false)
        );
        assert_eq!((routes[0].clusters.len(), routes[1].stops), (0, is_last_stopping));
    }
    let wrong = Folder::with(&[
        ("a.conf", "cluster c forward h:1;\nmatch * validate x else send to c;"),
        (
            "b.toml",
            "[[cluster]]\nname = 'c'\nmethod = 'all'\ntargets = ['h']\n\
                    [[stage]]\nlog_invalid = true\nto = ['c']\n",
        ),
    ]);
    assert!(wrong.read("a.conf").unwrap_err().contains("'send' is neither log nor drop"));
    assert!(wrong.read("b.toml").unwrap_err().contains("'log_invalid' has an effect"));
}

#[test]
fn formats_are_detected_and_errors_name_their_line() {
    let forms = [
        (RELAY, Format::CarbonCRelay),
        (RELAY_NG, Format::CarbonRelayNg),
        ("[relay]\nDESTINATIONS = h:1\n", Format::Carbon),
        ("[[cluster]]\n", Format::Sandur),
        ("listen = ['127.0.0.1:1']\n[[cluster]]\n", Format::Sandur),
    ];
    for (text, format) in forms {
        assert_eq!(Format::of(text), format);
    }
    let wrong = [
        ("cluster x forward;", "x:1: cluster 'x' has no members"),
        ("cluster x forward h\n", "x:1: the last statement has no ';'"),
        ("match a\nsend to y;", "x:2: there is no cluster 'y' above"),
        ("cluster x nonsense h;", "x:1: there is no cluster type 'nonsense'"),
        ("cluster x carbon_ch h 1.2.3.4:99999;", "x:1: '99999' is not a port"),
        ("aggregate a every 0 seconds expire after 1 seconds compute sum write to x;", "x:1: an interval"),
        ("[relay]\nDESTINATIONS = h\n", "x:2: 'h' is not HOST:PORT"),
        ("[relay]\nDESTINATIONS = h:1\nRELAY_METHOD = no\n", "x:3: RELAY_METHOD 'no' is none of"),
        ("[[route]]\nkey = 'a'\ntype = 'sendAllMatch'\ndestinations = ['h:x']\n", "x:4: 'h:x' is not"),
        ("[[route]]\nkey = 7\n", "x:2: 'key' must be a text"),
    ];
    for (text, expected) in wrong {
        let folder = Folder::with(&[("x", text)]);
        let found = folder.read("x").map(|routing| format!("{:?}", routing.notes)).unwrap_err();
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    assert!(read(Path::new("/no/such/file"), None, None).is_err());
}

/// The words of the next statement became targets: points went to `match:2003` and `*:2003`.
#[test]
fn a_missing_semicolon_makes_no_targets_of_the_next_statement() {
    let wrong = [
        ("cluster a forward 127.0.0.1:1\nmatch * send to a;", "x:2: 'match' is a keyword and not a host"),
        ("cluster a forward h.x *;", "x:1: '*' is not the name or address of a host: is a ';' missing"),
        ("cluster a carbon_ch h.x 2;", "x:1: '2' is not the name or address of a host"),
    ];
    for (text, expected) in wrong {
        let found = Folder::with(&[("x", text)]).read("x").unwrap_err();
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let own = "[[cluster]]\nname = 'a'\nmethod = 'all'\ntargets = ['*']\n";
    assert!(Folder::with(&[("x", own)]).read("x").unwrap_err().contains("'*' is not the name"));
    assert!(Folder::with(&[("x", "match a\nsend to \"y\";")]).read("x").is_err());
}

#[test]
fn a_word_that_may_be_a_misspelled_option_is_reported() {
    let routing = of(&[("x", "cluster a carbon_ch replicaton h.x localhost h1 db=b; match * send to a;")]);
    assert_eq!(notes(&routing), [(1, "replicaton", false)]);
    let shown = routing.notes[0].to_string();
    let expected = "x:1: 'replicaton': this word is the host replicaton:2003; did you mean 'replication'?";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn a_file_that_sends_no_point_anywhere_is_refused_or_reported() {
    for text in ["", "# nothing\n", "listen_addr = '0.0.0.0:2003'\n", "listen type linemode 2003 proto tcp;"]
    {
        let found = Folder::with(&[("x", text)]).read("x").unwrap_err();
        assert!(found.starts_with("x:1: "), "{text}: {found}");
    }
    let routing = of(&[("x", "cluster a forward h.x;")]);
    assert!(routing.notes[0].to_string().contains("'a': no route sends points"), "{:?}", routing.notes);
}

/// The first error hid all later ones, and `useall` was such an error.
#[test]
fn every_line_that_is_wrong_or_unsupported_is_reported() {
    let useall = |kind: &str| {
        let routing = of(&[("x", &format!("cluster a {kind} h.x;\nmatch * send to a;"))]);
        assert_eq!((notes(&routing), routing.targets.len()), (vec![(1, "useall", true)], 1), "{kind}");
    };
    ["useall", "forward useall", "any_of useall"].into_iter().for_each(useall);
    let text = "cluster a useall h.x;\ncluster b nonsense h.x;\nmatch (?=x)y send to a;\n\
                match * send to c;\nmatch * send to b";
    let found = Folder::with(&[("x", text)]).read("x").unwrap_err();
    let lines: Vec<&str> = found.lines().map(|line| &line[..4]).collect();
    assert_eq!(lines, ["x:1:", "x:2:", "x:3:", "x:4:", "x:5:"], "{found}");
}

#[test]
fn no_text_makes_a_reader_panic() {
    let mut seed = 7_u64;
    for text in [RELAY, RELAY_NG, "[relay]\nDESTINATIONS = h:1:a, g:2\nRELAY_METHOD = fast-hashing\n"] {
        for _ in 0..200 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bytes.len();
                match seed >> 62 {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes[at] = b"{};'\"\\[]=<>"[(seed >> 20) as usize % 11],
                    _ => drop(bytes.remove(at)),
                }
                if bytes.is_empty() {
                    bytes.push(b'x');
                }
            }
            let folder = Folder::with(&[("x", &String::from_utf8_lossy(&bytes))]);
            for (_, format) in Format::NAMES {
                let _ = read(&folder.0.path().join("x"), Some(format), None);
            }
        }
    }
}

#[test]
fn carbon_sorts_tags_if_configured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("carbon.conf");
    let text =
        "[relay]\nRELAY_METHOD = consistent-hashing\nDESTINATIONS = h1:1\nTAG_RELAY_NORMALIZED = True\n";
    std::fs::write(&path, text).unwrap();
    let routing = read(&path, None, None).unwrap();
    assert!(routing.notes.is_empty() && matches!(routing.stages[0], Stage::Canonical), "{routing:?}");
    let router = crate::router::Router::new(routing).unwrap();
    let found = crate::lookup::lookup(&router, b"m;b=2;a=1", &mut Default::default());
    assert_eq!(found.targets[0].1, "m;a=1;b=2");
}
