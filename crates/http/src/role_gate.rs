//! Refuses requests for work that this process does not do by its roles.

use sandur_base::ErrorKind;
use sandur_model::{Role, Roles};

use crate::failed_request::Failure;
use crate::route::{Access, Group, Route};

/// The refusal of a request to a route by a process with these roles. A 404, as of a process that does not
/// know the path: the request went to the wrong process, and repeating it does not help.
pub fn refusal(route: &Route, roles: Roles) -> Option<Failure> {
    let needed = match (route.scope, route.group) {
        // What operators ask of this process, and its rules, need no other process.
        (_, Group::Operations | Group::Rules) => return None,
        (Access::Write, _) => Role::Ingest,
        (Access::Read, _) => Role::Query,
        _ => return None,
    };
    let work = if needed == Role::Ingest { "takes no pushes" } else { "answers no queries" };
    (!roles.has(needed)).then(|| {
        let text = format!(
            "this process {work}: cluster.roles is '{roles}', without '{needed}'; send the request to a \
             process that has the role (GET /sandur/cluster lists them)\n"
        );
        Failure::new(ErrorKind::NotFound, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn pushes_and_queries_need_their_roles_and_operators_none() {
        let refused = |roles: Roles| -> Vec<&str> {
            let refused = ROUTES.iter().filter(|route| refusal(route, roles).is_some());
            refused.map(|route| route.paths[0]).collect()
        };
        assert_eq!(refused(Roles::ALL), [] as [&str; 0]);
        let pushes = refused(Roles::ALL.without(Role::Ingest));
        for path in ["/loki/api/v1/push", "/api/v1/write", "/otlp/v1/logs", "/graphite/carbon"] {
            assert!(pushes.contains(&path), "{path} of {pushes:?}");
        }
        let queries = refused(Roles::ALL.without(Role::Query));
        for path in ["/loki/api/v1/query_range", "/api/v1/query", "/render", "/loki/api/v1/labels"] {
            assert!(queries.contains(&path), "{path} of {queries:?}");
        }
        for path in ["/ready", "/metrics", "/sandur/cluster", "/flush", "/config"] {
            assert!(!pushes.contains(&path) && !queries.contains(&path), "{path}");
        }
        let text = refusal(ROUTES[0], Roles::ALL.without(Role::Ingest)).unwrap().message;
        assert!(text.contains("cluster.roles") && text.contains("'ingest'"), "{text}");
    }
}
