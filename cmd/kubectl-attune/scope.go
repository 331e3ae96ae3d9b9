package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scope is what -n, -A and -l leave of the cluster.
type scope struct {
	all      bool
	selector string
}

func (s *scope) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&s.all, "all-namespaces", "A", false, "Look at every namespace")
	flags.StringVarP(&s.selector, "selector", "l", "", "Label selector: of policies for status, of workloads for every other verb")
}

// namespace to look in; empty is all of them.
func (e *environment) namespace() (string, error) {
	if e.scope.all {
		return "", nil
	}
	return e.cluster.Namespace()
}

// labelSelector is nil where none was given.
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

// within are the list options of a namespace and a selector. A nil selector is left out: to the client
// it would mean nothing at all.
func within(namespace string, selector labels.Selector) []client.ListOption {
	options := []client.ListOption{client.InNamespace(namespace)}
	if selector != nil {
		options = append(options, client.MatchingLabelsSelector{Selector: selector})
	}
	return options
}

// where names the scope in a sentence.
func where(namespace string) string {
	if namespace == "" {
		return "any namespace"
	}
	return "namespace " + namespace
}
