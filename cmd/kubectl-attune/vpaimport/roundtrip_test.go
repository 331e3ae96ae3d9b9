package vpaimport_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/vpaimport"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// container is what a VPA, or a policy, means for one container. It is the same for both.
type container struct {
	Off  bool
	Of   [2]bounds
	Type v1alpha1.UpdateType
	// Evicts: pods may be evicted for a resize.
	Evicts bool
	// Boost multiplies the CPU of a starting container; 0: nothing does.
	Boost float64
}

// bounds of a resource. Sized is false if the product leaves the resource as it is.
type bounds struct {
	Sized, LimitsFollow bool
	Min, Max            recommender.Amount
}

// drawn is a VPA, in the words of its documentation.
type drawn struct {
	mode    string
	boost   string // the factor; empty: not set
	entries []entry
}

type entry struct {
	name, mode, values string
	boost              string // as of the VPA; none: startupBoost without cpu
	resources          []string
	of                 [2][2]string // minAllowed and maxAllowed, by resource
}

var names = []string{"app", "proxy", "*", "log"}

func draw(r *rand.Rand) (d drawn) {
	of := func(values ...string) string { return values[r.IntN(len(values))] }
	d.mode = of("Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace", "")
	d.boost = of("", "", "2", "3")
	for range r.IntN(5) {
		e := entry{name: of(names...), mode: of("", "Auto", "Off"), values: of("", "RequestsOnly", "RequestsAndLimits"), boost: of("", "", "", "none", "1", "5")}
		e.resources = [][]string{nil, nil, {"cpu"}, {"memory"}, {"memory", "cpu"}, {}}[r.IntN(6)]
		e.of = [2][2]string{{of("", "50m", "0"), of("", "2", "0.5")}, {of("", "64Mi", "100M"), of("", "4Gi", "2.5Gi")}}
		d.entries = append(d.entries, e)
	}
	return d
}

// object is the VPA as the API server stores it.
func (d drawn) object(t *testing.T) *unstructured.Unstructured {
	var policies []any
	for _, e := range d.entries {
		p := map[string]any{"containerName": e.name}
		for field, value := range map[string]string{"mode": e.mode, "controlledValues": e.values} {
			if value != "" {
				p[field] = value
			}
		}
		if e.resources != nil {
			p["controlledResources"] = e.resources
		}
		for i, field := range []string{"minAllowed", "maxAllowed"} {
			list := map[string]any{}
			for r, name := range []string{"cpu", "memory"} {
				if amount := e.of[r][i]; amount != "" {
					list[name] = amount
				}
			}
			p[field] = list
		}
		setBoost(p, e.boost)
		policies = append(policies, p)
	}
	spec := map[string]any{
		"targetRef":      map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"updatePolicy":   map[string]any{"updateMode": d.mode},
		"resourcePolicy": map[string]any{"containerPolicies": policies},
	}
	setBoost(spec, d.boost)
	text, err := json.Marshal(map[string]any{"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": spec})
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON(text))
	return o
}

func setBoost(of map[string]any, boost string) {
	switch boost {
	case "":
	case "none":
		of["startupBoost"] = map[string]any{}
	default:
		of["startupBoost"] = map[string]any{"cpu": map[string]any{"type": "Factor", "factor": json.Number(boost)}}
	}
}

// means is what VPA's documentation says: a container has the entry with its name, otherwise the entry *; nothing of
// another entry applies. The defaults are mode Auto, both resources, and limits that follow. A bound of 0 is no bound. Of
// two entries with one name VPA takes the first, of two entries * the last. A container's own startupBoost takes precedence
// over the VPA's. attune boosts no container whose CPU it does not size, and none in mode Initial.
func (d drawn) means(name string) container {
	var own, other *entry
	for i := range d.entries {
		switch e := &d.entries[i]; {
		case e.name == name && own == nil:
			own = e
		case e.name == "*":
			other = e
		}
	}
	c := container{Type: v1alpha1.UpdateAuto, Evicts: d.mode == "InPlaceOrRecreate"}
	switch d.mode {
	case "Off":
		c.Type = v1alpha1.UpdateRecommend
	case "Initial":
		c.Type = v1alpha1.UpdateInitial
	}
	e := own
	if e == nil {
		e = other
	}
	if e == nil {
		e = &entry{}
	}
	c.Off = e.mode == "Off" || e.resources != nil && len(e.resources) == 0
	for r, resourceName := range []string{"cpu", "memory"} {
		c.Of[r] = bounds{
			Sized: e.resources == nil || slices.Contains(e.resources, resourceName), LimitsFollow: e.values != "RequestsOnly",
			Min: amountOf(recommender.Resource(r), e.of[r][0]), Max: amountOf(recommender.Resource(r), e.of[r][1]),
		}
	}
	for r := range c.Of {
		if !c.Of[r].Sized { // nothing else has an effect
			c.Of[r] = bounds{}
		}
	}
	if c.Off {
		c.Of = [2]bounds{}
	}
	boost := d.boost
	if e.boost != "" {
		boost = e.boost
	}
	if factor, err := strconv.ParseFloat(boost, 64); err == nil && factor > 1 && c.Of[recommender.CPU].Sized && d.mode != "Initial" {
		c.Boost = factor
	}
	return c
}

func amountOf(r recommender.Resource, text string) recommender.Amount {
	if text == "" {
		return 0
	}
	return podview.AmountOf(r, resource.MustParse(text))
}

// For each container, the resolved policy of a VPA means what the VPA means.
func TestPoliciesMeanWhatTheirVPAsMean(t *testing.T) {
	for seed := range uint64(3000) {
		d := draw(rand.New(rand.NewPCG(seed, 44)))
		made, notes := vpaimport.Import(d.object(t))
		require.NotNil(t, made)
		settings, err := policy.ResolveNew(nil, nil, &v1alpha1.AttunePolicy{Spec: made.Spec}, policy.Operator{})
		require.NoError(t, err, "seed %d, %+v", seed, d)
		require.Empty(t, settings.Remarks(), "seed %d, %+v", seed, d)
		for _, name := range []string{"app", "proxy", "log", "later"} {
			require.Equal(t, d.means(name), meaning(settings, name), "seed %d, container %s, %+v, %v", seed, name, d, notes)
		}
	}
}

// meaning is what the settings of a policy mean for a container.
func meaning(s policy.Settings, name string) container {
	c := container{Type: s.Resize.Mode, Evicts: s.Resize.Method == v1alpha1.ResizeInPlaceOrRecreate, Off: s.Resize.Excludes(name)}
	if c.Off {
		return c
	}
	if boost := s.BoostOf(name); boost != nil {
		c.Boost = boost.Multiplier
	}
	for _, r := range recommender.Resources {
		of := s.For(name).Of[r]
		if of.Uncontrolled != "" {
			continue
		}
		c.Of[r] = bounds{Sized: true, LimitsFollow: of.LimitsFollow, Min: of.MinAllowed, Max: of.MaxAllowed}
	}
	return c
}
