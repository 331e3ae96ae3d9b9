package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scope is the part of the cluster that -n, -A and -l select.
type scope struct {
	// all is -A: every namespace.
	all bool
	// selector is -l as given; empty: none.
	selector string
}

// addFlags adds -A and -l. -n belongs to the connection flags, as in kubectl.
func (s *scope) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&s.all, "all-namespaces", "A", false, "Look at every namespace")
	flags.StringVarP(&s.selector, "selector", "l", "", "Label selector: of policies for status, of workloads for every other verb")
}

// namespace returns the namespace to look in; empty means all of them, as for the client.
func (e *environment) namespace() (string, error) {
	// An empty namespace means all of them to the client.
	if e.scope.all {
		return "", nil
	}
	return e.cluster.Namespace()
}

// labelSelector parses -l; nil where it was not given.
func (s scope) labelSelector() (labels.Selector, error) {
	if s.selector == "" {
		return nil, nil
	}
	selector, err := labels.Parse(s.selector)
	if err != nil {
		return nil, fmt.Errorf("-l %q is not a label selector (%w): write e.g. -l tier=api", s.selector, err)
	}
	return selector, nil
}

// within returns the list options of a namespace and a selector. A nil selector is left out, since the client
// would take it for a selector that matches nothing.
func within(namespace string, selector labels.Selector) []client.ListOption {
	options := []client.ListOption{client.InNamespace(namespace)}
	if selector != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: selector})
	}
	return options
}

// where returns the scope in words, for a sentence.
func where(namespace string) string {
	if namespace == "" {
		return "any namespace"
	}
	return "namespace " + namespace
}
