// Package fault stands between a program and an API server. It knows every call by its kind, and lets go
// wrong on the way what can: the program is killed before or after, answers are lost, late, or refusals.
package fault

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Call is one request to an API server, in the words that RBAC uses.
type Call struct {
	Verb, Resource, Subresource string
	Namespace, Name             string
	// Body of a write.
	Body []byte
	// DryRun: the write stores nothing.
	DryRun bool
	// Landed: it was handed on to the API server. Code is the API server's answer; 0: none came.
	Landed bool
	Code   int
}

// Kind is the call without its object, such as "patch pods/resize".
func (c Call) Kind() string {
	if c.Subresource == "" {
		return c.Verb + " " + c.Resource
	}
	return c.Verb + " " + c.Resource + "/" + c.Subresource
}

// String also names the object.
func (c Call) String() string { return c.Kind() + " " + c.Name }

var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// CallOf reads a request's address: /api/v1 or /apis/GROUP/VERSION, then namespaces/NAMESPACE where there
// is one, then RESOURCE/NAME/SUBRESOURCE. Other addresses, such as /version, are resources of that name.
func CallOf(r *http.Request, body []byte) Call {
	call := Call{Verb: verbs[r.Method], Body: body, DryRun: r.URL.Query().Has("dryRun")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		call.Resource = r.URL.Path
		return call
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		call.Namespace, parts = parts[1], parts[2:]
	}
	call.Resource = parts[0]
	if len(parts) > 1 {
		call.Name = parts[1]
	}
	if len(parts) > 2 {
		call.Subresource = parts[2]
	}
	switch {
	case call.Verb == "create" && call.Name == "":
		call.Name = nameIn(body)
	case call.Verb == "get" && r.URL.Query().Get("watch") != "":
		call.Verb = "watch"
	case call.Verb == "get" && call.Name == "":
		call.Verb = "list"
	}
	return call
}

// nameIn is the name of a new object, where it is written in JSON.
func nameIn(body []byte) string {
	var object struct {
		Metadata struct{ Name string }
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return ""
	}
	return object.Metadata.Name
}
