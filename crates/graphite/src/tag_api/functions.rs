//! `/functions` and `/functions/NAME`: descriptions of functions for clients.

use serde_json::{Map, Value};

use super::Parameters;
use crate::error::Error;
use crate::reference::functions_json;
use crate::rendered::Rendered;

/// All functions, those of a group, all by group, or one by name.
pub fn functions(name: Option<&str>, pairs: &[(String, String)]) -> Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let Value::Object(mut all) = functions_json() else { return Ok(parameters.answer("{}".to_owned())) };
    if let Some(name) = name {
        let found = all.remove(name).ok_or_else(|| Error::invalid(format!("Function not found: {name}")))?;
        return Ok(parameters.answer(found.to_string()));
    }
    if let Some(group) = parameters.last("group") {
        all.retain(|_, info| info["group"] == group);
    }
    let is_grouped =
        parameters.last("grouped").is_some_and(|text| text == "1" || text.eq_ignore_ascii_case("true"));
    if !is_grouped {
        return Ok(parameters.answer(Value::Object(all).to_string()));
    }
    let mut groups = Map::new();
    for (name, info) in all {
        let group = info["group"].as_str().unwrap_or_default().to_owned();
        let group = groups.entry(group).or_insert_with(|| Value::Object(Map::new()));
        if let Some(group) = group.as_object_mut() {
            group.insert(name, info);
        }
    }
    Ok(parameters.answer(Value::Object(groups).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(name: Option<&str>, pairs: &[(&str, &str)]) -> Value {
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        serde_json::from_slice(&functions(name, &pairs).unwrap().body).unwrap()
    }

    #[test]
    fn functions_are_listed_by_name_by_group_and_all() {
        assert_eq!(body(Some("sum"), &[])["group"], "Combine");
        assert!(functions(Some("nosuch"), &[]).is_err());
        let sorting = body(None, &[("group", "Sorting")]);
        assert!(sorting["sortByName"].is_object() && sorting.get("sum").is_none());
        let grouped = body(None, &[("grouped", "true")]);
        assert_eq!(grouped["Combine"]["sum"]["name"], "sum");
    }
}
