// Package input parses user input: flags and workload names on the command line, and YAML files. An error quotes the
// input and gives a valid example.
//
//   - flags.go: flags with their own syntax, and workloads as kubectl names them, such as deploy/web.
//   - policy.go: a policy with its defaults (ParsePolicy), and a policy as a user writes it (WritePolicy).
//   - demands.go: the demands of a node's pods (ParseDemands).
//   - strict.go: decoding as strict as the API server's.
package input

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
	"attune.io/attune/usage"
	"attune.io/attune/usage/csvfile"
)

// Amounts is the value of a flag such as cpu=500m,memory=1Gi.
type Amounts struct {
	// Of is indexed by recommender.Resource, in millicores and bytes; 0 means not given.
	Of [2]recommender.Amount
	// text is the flag as given.
	text string
	// Given is true if the flag was given, also with amounts of 0.
	Given bool
}

// String implements pflag.Value. It returns the flag as given.
func (a *Amounts) String() string { return a.text }

// Type implements pflag.Value.
func (a *Amounts) Type() string { return "amounts" }

// leastMemory is the least amount of memory that a user can mean. Less is a number without its unit.
const leastMemory recommender.Amount = 1 << 20

// Set implements pflag.Value. A repeated or unknown resource is an error.
func (a *Amounts) Set(value string) error {
	*a = Amounts{text: value, Given: true}
	// Without this check, a repeated resource would silently get its last value.
	seen := map[string]bool{}
	for _, pair := range strings.Split(value, ",") {
		name, text, _ := strings.Cut(pair, "=")
		if seen[name] {
			return fmt.Errorf("%s is specified twice", name)
		}
		seen[name] = true
		r, err := resourceNamed(name)
		if err != nil {
			return err
		}
		quantity, err := workload.ParseQuantity(text)
		if err != nil || quantity.Sign() < 0 {
			return fmt.Errorf("%s %q is not a valid quantity: write e.g. %s", name, text, amountExamples[r])
		}
		switch a.Of[r] = podview.AmountOf(r, quantity); {
		case a.Of[r] >= recommender.MaxAmount:
			return fmt.Errorf("%s %q is above any node: write e.g. %s", name, text, amountExamples[r])
		case r == recommender.Memory && a.Of[r] > 0 && a.Of[r] < leastMemory:
			return fmt.Errorf("%s %q is below 1Mi: is a unit missing, e.g. memory=512Mi", name, text)
		}
	}
	return nil
}

// Node is the flag --node: the size of the node on which recorded containers ran.
type Node struct{ Amounts }

// AddTo adds the flag.
func (n *Node) AddTo(flags *pflag.FlagSet) {
	flags.Var(&n.Amounts, "node", "Size of the node on which the recorded containers ran, e.g. cpu=16,memory=64Gi; larger samples are dropped (default: drop samples above 1,024 cores or 64Ti, or above 1,000 times the median of their series)")
}

// Bounds returns the limits of plausible samples. CPU may exceed the node by the error of a rate (usage.MostOn).
// Memory is not a rate.
func (n *Node) Bounds() usage.Most {
	return usage.Most{
		Cores: usage.MostOn(float64(n.Of[recommender.CPU])/1000, 0).Cores,
		Bytes: float64(n.Of[recommender.Memory]),
	}
}

// Pool is the flag --pool: a pattern for the names of series that are replicas.
type Pool struct{ pattern *regexp.Regexp }

// AddTo adds the flag.
func (p *Pool) AddTo(flags *pflag.FlagSet) {
	flags.Func("pool", "Regular `expression` for series that are replicas, e.g. '^(shop/web)-[^/]*(.*)$': series with the same text in its groups are merged, and the highest sample of each time counts", func(text string) (err error) {
		if p.pattern, err = regexp.Compile(text); err != nil {
			return fmt.Errorf("not a regular expression, e.g. ^(shop/web)-[^/]*(.*)$: %w", err)
		}
		return nil
	})
}

// Given reports whether the flag was given.
func (p *Pool) Given() bool { return p.pattern != nil }

// Of merges the series. It is an error if the pattern matches none.
func (p *Pool) Of(all []backtest.Series) ([]backtest.Series, error) {
	pooled, matches := csvfile.Pool(all, p.pattern)
	if !matches {
		return nil, fmt.Errorf("--pool %q matches no series, e.g. %q: write a regular expression such as ^(shop/web)-[^/]*(.*)$", p.pattern, all[0].ID)
	}
	return pooled, nil
}

// amountExamples are valid values for error messages.
var amountExamples = [2]string{recommender.CPU: "cpu=500m", recommender.Memory: "memory=1Gi"}

// resourceNamed converts cpu or memory to a resource.
func resourceNamed(name string) (recommender.Resource, error) {
	for _, r := range recommender.Resources {
		if name == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is neither cpu nor memory: write e.g. cpu=500m,memory=1Gi", name)
}

// Period is the value of a flag with a duration that may be in days, such as 14d.
type Period struct {
	time.Duration
	// Given is true if the flag was given.
	Given bool
}

// String implements pflag.Value.
func (p *Period) String() string {
	if p.Duration%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(p.Duration/(24*time.Hour)), 10) + "d"
	}
	return p.Duration.String()
}

// Type implements pflag.Value.
func (p *Period) Type() string { return "duration" }

// mostPeriod equals the longest history window.
const mostPeriod = 90 * 24 * time.Hour

// Set implements pflag.Value.
func (p *Period) Set(value string) error {
	text, inDays := strings.CutSuffix(value, "d")
	var of time.Duration
	var err error
	if inDays {
		var days float64
		days, err = strconv.ParseFloat(text, 64)
		of = time.Duration(min(max(days, 0), 1000) * float64(24*time.Hour))
	} else {
		of, err = time.ParseDuration(value)
	}
	if err != nil || of <= 0 || of > mostPeriod {
		return errors.New("must be a duration of at most 90d, e.g. 14d or 36h")
	}
	*p = Period{of, true}
	return nil
}

// KindNames are the names that kubectl accepts for each kind, in lower case.
var KindNames = map[v1alpha1.WorkloadKind][]string{
	v1alpha1.KindDeployment:  {"deployment", "deployments", "deploy", "deployments.apps", "deployment.apps"},
	v1alpha1.KindStatefulSet: {"statefulset", "statefulsets", "sts", "statefulsets.apps", "statefulset.apps"},
	v1alpha1.KindDaemonSet:   {"daemonset", "daemonsets", "ds", "daemonsets.apps", "daemonset.apps"},
	v1alpha1.KindReplicaSet:  {"replicaset", "replicasets", "rs", "replicasets.apps", "replicaset.apps"},
	v1alpha1.KindJob:         {"job", "jobs", "jobs.batch", "job.batch"},
	v1alpha1.KindCronJob:     {"cronjob", "cronjobs", "cj", "cronjobs.batch", "cronjob.batch"},
	v1alpha1.KindRollout:     {"rollout", "rollouts", "ro", "rollouts.argoproj.io", "rollout.argoproj.io"},
}

// ParseWorkload parses KIND/NAME, such as deploy/web. The case of the kind does not matter. The workload need not
// exist, and neither must a kind that is written as KIND.GROUP. Errors give the syntax, or the kinds that attune
// sizes.
func ParseWorkload(argument, namespace string) (workload.Identity, error) {
	spelled, name, found := strings.Cut(argument, "/")
	// A second slash is most likely NAMESPACE/KIND/NAME, which kubectl does not accept either.
	if !found || name == "" || strings.Contains(name, "/") {
		return workload.Identity{}, fmt.Errorf("%q is not a workload: write KIND/NAME, e.g. deployment/web", argument)
	}
	kind, known := KindNamed(spelled)
	// For KIND.GROUP, only the API server knows the canonical spelling. The plugin resolves it later.
	if !known && workload.IsScaled(v1alpha1.WorkloadKind(spelled)) {
		kind, known = v1alpha1.WorkloadKind(spelled), true
	}
	if !known {
		return workload.Identity{}, fmt.Errorf("%q in %q is not a kind that attune manages: use %s, or a KIND.GROUP of the chart's value scaledKinds", spelled, argument, SizedKinds)
	}
	return workload.Identity{Kind: kind, Namespace: namespace, Name: name}, nil
}

// SizedKinds lists, for sentences, the kinds that are always sized.
const SizedKinds = "deployment, statefulset, daemonset, replicaset, job, cronjob or rollout"

// KindNamed returns the kind of a name that kubectl accepts. Case does not matter.
func KindNamed(spelled string) (v1alpha1.WorkloadKind, bool) {
	// No name belongs to two kinds, so the order of the map does not matter.
	for kind, names := range KindNames {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, spelled) }) {
			return kind, true
		}
	}
	return "", false
}
