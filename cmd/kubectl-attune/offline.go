package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/recommender"
)

// offlineFlags are the flags of explain without a cluster.
type offlineFlags struct {
	// usage and policy are paths of files; empty: not given.
	usage, policy string
	// current and limits are requests and limits that all containers have.
	current, limits input.Amounts
	// node on which the containers ran; not given: it is not known.
	node input.Node
	// at is the time to explain as of; zero: that of the last sample.
	at time.Time
}

// addTo adds the flags to the verb explain.
func (f *offlineFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.usage, "usage", "", "CSV file of usage samples, gzip by name (.gz): series_id,timestamp,cpu_cores,memory_bytes")
	flags.StringVar(&f.policy, "policy", "", "YAML file with an AttunePolicy, and the defaults under it where there are any")
	flags.Var(&f.current, "current", "Requests that the containers have, e.g. cpu=500m,memory=1Gi")
	flags.Var(&f.limits, "limits", "Limits that the containers have, e.g. cpu=1,memory=2Gi; none where left out")
	f.node.AddTo(flags)
	flags.Func("at", "RFC 3339 `time` to explain as of; later samples are ignored (default: the time of the last sample in the file)", func(text string) (err error) {
		if f.at, err = time.Parse(time.RFC3339, text); err != nil {
			return errors.New("write an RFC 3339 time, e.g. 2026-01-15T10:00:00Z")
		}
		return nil
	})
}

// given returns whether any of the flags is set, which means that files are explained.
// One flag of files is enough: missing then names those that are still needed.
func (f *offlineFlags) given() bool {
	return f.usage != "" || f.policy != "" || f.current.Given || f.limits.Given || f.node.Given || !f.at.IsZero()
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
	if !f.current.Given {
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
		size[r] = recommender.Allocation{Request: f.current.Of[r], Limit: f.limits.Of[r]}
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
