// Package rights compares what a ServiceAccount may do with what it did: its roles with an API server's audit log.
package rights

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Policy is an audit policy that notes what the ServiceAccounts of a namespace ask for, once each time, without bodies.
func Policy(namespace string) string {
	return fmt.Sprintf(`apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:%[1]s"]
    verbs: [watch]
    omitStages: [RequestReceived, ResponseComplete]
  - level: Metadata
    userGroups: ["system:serviceaccounts:%[1]s"]
    omitStages: [RequestReceived, ResponseStarted]
  - level: None
`, namespace)
}

// Use is one request, as the API server saw it.
type Use struct {
	User string
	// Namespace asked for; empty: all of them, or none.
	Namespace string
	// Rule is the least that allows it.
	Rule    rbacv1.PolicyRule
	Refused bool
	// At is when it was asked; of a use that was refused more than once, the first time.
	At time.Time
}

func (u Use) String() string { return u.User + in(u.Namespace) + " " + describe(u.Rule) }

// Grant is one thing that a user may do.
type Grant struct {
	User string
	// Namespace it holds in; empty: in all of them.
	Namespace string
	// Rule has one verb and one resource.
	Rule rbacv1.PolicyRule
}

func (g Grant) String() string { return g.User + in(g.Namespace) + " " + describe(g.Rule) }

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in " + namespace
}

func describe(r rbacv1.PolicyRule) string {
	what := append(slices.Clone(r.Resources), r.NonResourceURLs...)
	for i, group := range r.APIGroups {
		if group != "" && i < len(r.Resources) {
			what[i] += "." + group
		}
	}
	text := strings.Join(r.Verbs, ",") + " " + strings.Join(what, ",")
	if len(r.ResourceNames) > 0 {
		text += " " + strings.Join(r.ResourceNames, ",")
	}
	return text
}

// event is what is read of an entry of an audit log.
type event struct {
	Verb                     string
	RequestURI               string
	User                     struct{ Username string }
	RequestReceivedTimestamp time.Time
	ObjectRef                *struct{ Resource, Namespace, Name, APIGroup, Subresource string }
	// Annotations have what was decided, and why.
	Annotations map[string]string
}

// decision of the authorizer: an admission plug-in answers with the same code.
const decision, forbid = "authorization.k8s.io/decision", "forbid"

// Read the uses of an audit log: each once.
func Read(log io.Reader) ([]Use, error) {
	seen := map[string]Use{}
	lines := bufio.NewReader(log)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // a last line without an end is still being written
			break
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d of the audit log: %w", number, err)
		}
		use := useOf(e)
		if key := fmt.Sprint(use.Refused, use); seen[key].Rule.Verbs == nil {
			seen[key] = use
		}
	}
	var uses []Use
	for _, use := range seen {
		uses = append(uses, use)
	}
	slices.SortFunc(uses, func(a, b Use) int { return strings.Compare(a.String(), b.String()) })
	return uses, nil
}

// useOf an event. A request for a name is refused or allowed by that name.
func useOf(e event) Use {
	use := Use{User: e.User.Username, Rule: rbacv1.PolicyRule{Verbs: []string{e.Verb}}, Refused: e.Annotations[decision] == forbid, At: e.RequestReceivedTimestamp}
	if e.ObjectRef == nil {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		use.Rule.NonResourceURLs = []string{path}
		return use
	}
	o, resource := e.ObjectRef, e.ObjectRef.Resource
	if o.Subresource != "" {
		resource += "/" + o.Subresource
	}
	use.Namespace = o.Namespace
	use.Rule.APIGroups, use.Rule.Resources = []string{o.APIGroup}, []string{resource}
	if o.Name != "" {
		use.Rule.ResourceNames = []string{o.Name}
	}
	return use
}

// Refused are the uses that the API server refused for want of a right, before rights were taken away (zero: never).
func Refused(uses []Use, taken time.Time) (refused []Use) {
	for _, use := range uses {
		if use.Refused && (taken.IsZero() || use.At.Before(taken)) {
			refused = append(refused, use)
		}
	}
	return refused
}

// Unused are the grants that no use needed.
func Unused(grants []Grant, uses []Use) (unused []Grant) {
	for _, g := range grants {
		needed := slices.ContainsFunc(uses, func(u Use) bool { return !u.Refused && g.allows(u) })
		if !needed {
			unused = append(unused, g)
		}
	}
	return unused
}

func (g Grant) allows(u Use) bool {
	if g.User != u.User || g.Namespace != "" && g.Namespace != u.Namespace {
		return false
	}
	covers, _ := validation.Covers([]rbacv1.PolicyRule{g.Rule}, []rbacv1.PolicyRule{u.Rule})
	return covers
}

// Bound is a role's rules as they are bound to users, in a namespace or, where that is empty, in all of them.
type Bound struct {
	Namespace string
	Subjects  []rbacv1.Subject
	Rules     []rbacv1.PolicyRule
}

// Grants to ServiceAccounts of a namespace, one by one, sorted.
func Grants(namespace string, bound []Bound) (grants []Grant) {
	for _, b := range bound {
		for _, s := range b.Subjects {
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != namespace {
				continue
			}
			for _, rule := range b.Rules {
				for _, one := range validation.BreakdownRule(rule) {
					grants = append(grants, Grant{User: "system:serviceaccount:" + s.Namespace + ":" + s.Name, Namespace: b.Namespace, Rule: one})
				}
			}
		}
	}
	slices.SortFunc(grants, func(a, b Grant) int { return strings.Compare(a.String(), b.String()) })
	return grants
}
