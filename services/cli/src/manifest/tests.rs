use super::document::read_text;
use super::{InputError, Objects, Sources, add};

fn read_as(name: &str, text: &str) -> Result<(Objects, Vec<String>), InputError> {
    let mut sources = Sources::default();
    let source = sources.add(name, Some(text.to_owned()));
    let mut objects = Objects::default();
    let mut ignored = Vec::new();
    read_text(text, source, &sources, &mut |value, origin| {
        add(&mut objects, value, origin, &sources, &mut |line| ignored.push(line))
    })?;
    Ok((objects, ignored))
}

pub(super) fn read(text: &str) -> Result<(Objects, Vec<String>), InputError> {
    read_as("input.yaml", text)
}

const TWO_DOCUMENTS: &str = "# a comment
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: c
    resources: {requests: {cpu: 1, memory: 2Gi}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector: {}
  template:
    spec:
      containers: []
";

#[test]
fn documents_of_a_file_are_read_one_by_one() {
    let (objects, ignored) = read(TWO_DOCUMENTS).unwrap();
    assert_eq!((objects.pods.len(), objects.deployments.len(), ignored.len()), (1, 1, 0));
}

#[test]
fn plain_numbers_are_quantities_too() {
    let (objects, _) = read(TWO_DOCUMENTS).unwrap();
    let container = &objects.pods[0].object.spec.as_ref().unwrap().containers[0];
    let requests = container.resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!(requests["cpu"].0, "1");
}

#[test]
fn a_list_in_yaml_or_json_is_as_good_as_its_items() {
    let yaml = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Node, metadata: {name: n}}\n";
    let json = r#"{"apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}], "kind": "List"}"#;
    for text in [yaml, json] {
        let (objects, _) = read(text).unwrap();
        assert_eq!((objects.pods.len(), objects.nodes.len()), (1, 1));
    }
}

#[test]
fn items_of_a_typed_list_take_their_kind_from_it() {
    let json = r#"{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}], "kind": "PodList", "apiVersion": "v1"}"#;
    assert_eq!(read(json).unwrap().0.pods.len(), 2);
}

#[test]
fn kinds_that_are_not_understood_are_ignored_with_a_line() {
    let (_, ignored) = read("\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\n").unwrap();
    assert_eq!(ignored, ["input.yaml:1: v1 Service ignored"]);
}

#[test]
fn a_wrong_type_is_reported_with_line_and_field() {
    let text = "apiVersion: v1
kind: Pod
metadata: {name: first}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: many
";
    let error = read(text).unwrap_err();
    assert_eq!(
        (error.line, error.field.as_str(), error.object.as_str()),
        (10, "spec.replicas", "Deployment web")
    );
    assert!(
        error.to_string().starts_with("input.yaml:10: Deployment web: spec.replicas: invalid type"),
        "{error}"
    );
}

#[test]
fn a_mistake_in_an_item_of_a_list_is_found_at_its_own_line() {
    let yaml = "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: fine}
- apiVersion: v1
  kind: Pod
  metadata: {name: wrong}
  spec:
    containers:
    - name: c
      ports:
      - containerPort: http
";
    let error = read(yaml).unwrap_err();
    assert_eq!((error.line, error.field.as_str()), (14, "spec.containers[0].ports[0].containerPort"));
    let json = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"},\n\"spec\": {\"containers\": [],\n\"priority\": \"high\"}}]}";
    let error = read_as("input.json", json).unwrap_err();
    assert_eq!((error.line, error.field.as_str()), (4, "spec.priority"));
}

#[test]
fn broken_syntax_is_reported_at_its_line_in_the_file() {
    let error =
        read("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nmetadata: {name: [}\n").unwrap_err();
    assert_eq!(error.line, 5, "{error}");
    let error = read_as("input.json", "{\"kind\": \"Pod\",\n\"apiVersion\" \"v1\"}").unwrap_err();
    assert_eq!(error.line, 2, "{error}");
}

#[test]
fn objects_without_a_kind_or_a_name_are_refused() {
    assert_eq!(read("metadata: {name: a}\n").unwrap_err().field, "kind");
    assert_eq!(read("kind: Pod\nmetadata: {name: a}\n").unwrap_err().field, "apiVersion");
    let error = read("apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n").unwrap_err();
    assert_eq!((error.field.as_str(), error.line), ("metadata.name", 3));
    let error = read("- a\n- b\n").unwrap_err();
    assert!(error.to_string().contains("kind List"), "{error}");
}

#[test]
fn empty_documents_and_comments_are_nothing() {
    let (objects, ignored) = read("---\n# only a comment\n---\n\n---\n").unwrap();
    assert!(objects.pods.is_empty() && ignored.is_empty());
}
