package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// offlineFlags are the flags of explain without a cluster.
type offlineFlags struct {
	// usage and policy are paths of files; empty: not given.
	usage, policy string
	// current and limits are requests and limits that all containers have.
	current, limits amounts
	// at is the time to explain as of; not set: that of the last sample.
	at instant
}

// addTo adds the flags to the verb explain.
func (f *offlineFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.usage, "usage", "", "CSV file of usage samples, gzip by name (.gz): series_id,timestamp,cpu_cores,memory_bytes")
	flags.StringVar(&f.policy, "policy", "", "YAML file with an AttunePolicy, and the defaults under it where there are any")
	flags.Var(&f.current, "current", "Requests that the containers have, e.g. cpu=500m,memory=1Gi")
	flags.Var(&f.limits, "limits", "Limits that the containers have, e.g. cpu=1,memory=2Gi; none where left out")
	flags.Var(&f.at, "at", "Time to explain as of, RFC 3339; later samples are not looked at (default: the time of the last sample in the file)")
}

// given returns whether any of the flags is set, which means that files are explained.
// One flag of files is enough: missing then names those that are still needed.
func (f *offlineFlags) given() bool {
	return f.usage != "" || f.policy != "" || f.current.set || f.limits.set || f.at.set
}

// missing returns one sentence with the flags that are still needed; nil where none is.
func (f *offlineFlags) missing() error {
	var missing []string
	if f.usage == "" {
		missing = append(missing, "--usage samples.csv")
	}
	if f.policy == "" {
		missing = append(missing, "--policy policy.yaml")
	}
	if !f.current.set {
		missing = append(missing, "--current cpu=500m,memory=1Gi")
	}
	// --limits and --at may be left out.
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("to explain files, add %s", strings.Join(missing, " and "))
}

// size returns the size of the containers. A limit without a request is the request too, as in Kubernetes.
// A limit below its request is an error, as the API server would refuse it.
func (f *offlineFlags) size() (recommender.Size, error) {
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: f.current.of[r], Limit: f.limits.of[r]}
		switch limit := size[r].Limit; {
		case limit > 0 && size[r].Request == 0:
			size[r].Request = limit
		case limit > 0 && limit < size[r].Request:
			return size, fmt.Errorf("--limits %s=%s is below --current %s=%s: a limit is at least its request",
				r, recommender.Format(r, limit), r, recommender.Format(r, size[r].Request))
		}
	}
	return size, nil
}

// amounts is the value of a flag such as cpu=500m,memory=1Gi.
type amounts struct {
	// of is indexed by recommender.Resource, in millicores and bytes; 0: not given.
	of [2]recommender.Amount
	// text is the flag as given.
	text string
	// set is true once the flag was given, also with amounts of 0.
	set bool
}

// String implements pflag.Value: the text as given.
func (a *amounts) String() string { return a.text }

// Type implements pflag.Value.
func (a *amounts) Type() string { return "amounts" }

// Set implements pflag.Value. A resource that is there twice, or an unknown one, is an error.
func (a *amounts) Set(value string) error {
	*a = amounts{text: value, set: true}
	// A resource that is given twice would silently have its last value.
	seen := map[string]bool{}
	for _, pair := range strings.Split(value, ",") {
		name, text, _ := strings.Cut(pair, "=")
		if seen[name] {
			return fmt.Errorf("%s is there twice", name)
		}
		seen[name] = true
		r, err := resourceNamed(name)
		if err != nil {
			return err
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() < 0 {
			return fmt.Errorf("%s %q is no amount: write e.g. %s", name, text, examples[r])
		}
		a.of[r] = podview.AmountOf(r, quantity)
	}
	return nil
}

// examples complete the error messages.
var examples = [2]string{recommender.CPU: "cpu=500m", recommender.Memory: "memory=1Gi"}

// resourceNamed converts cpu or memory to a resource.
func resourceNamed(name string) (recommender.Resource, error) {
	for _, r := range recommender.Resources {
		if name == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is neither cpu nor memory: write e.g. cpu=500m,memory=1Gi", name)
}

// instant is the value of a flag with a time in RFC 3339.
type instant struct {
	// time is valid where set is true.
	time time.Time
	// set is true once the flag was given.
	set bool
}

// String implements pflag.Value; empty: not given.
func (i *instant) String() string {
	if !i.set {
		return ""
	}
	return i.time.Format(time.RFC3339)
}

// Type implements pflag.Value.
func (i *instant) Type() string { return "time" }

// Set implements pflag.Value.
func (i *instant) Set(value string) error {
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return errors.New("write an RFC 3339 time, e.g. 2026-01-15T10:00:00Z")
	}
	*i = instant{time: at, set: true}
	return nil
}
