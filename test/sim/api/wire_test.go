package api

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	"attune.io/attune/api/v1alpha1"
)

// filler makes objects of all kinds, with what a round trip through JSON changes.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 2).MaxDepth(30).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewScaledQuantity(c.Int63n(1<<20), resource.Scale(c.Intn(5)-3))
			q.Format = []resource.Format{resource.DecimalSI, resource.BinarySI}[c.Intn(2)]
			if c.Bool() {
				_ = q.String()
			}
		},
		func(t *metav1.Time, c randfill.Continue) {
			if *t = (metav1.Time{}); c.Bool() {
				t.Time = time.Unix(c.Int63n(1<<32), c.Int63n(1e9)).UTC()
			}
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			t.Time = time.Unix(c.Int63n(1<<32), c.Int63n(1e9)).UTC()
		},
		func(d *metav1.Duration, c randfill.Continue) { d.Duration = time.Duration(c.Int63n(1 << 50)) },
		func(d *v1alpha1.Duration, c randfill.Continue) {
			d.Duration.Duration = time.Duration(c.Int63n(1 << 50))
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromInt32(int32(c.Intn(1000))); c.Bool() {
				*i = intstr.FromString("50%")
			}
		},
		func(e *runtime.RawExtension, _ randfill.Continue) { e.Raw, e.Object = []byte(`{"a":"b"}`), nil },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.Raw = []byte(`{}`) },
	)
}

// text is an object as a round trip through JSON makes it.
func text(t *testing.T, k *kind, o client.Object) client.Object {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	arrived := k.New()
	require.NoError(t, json.Unmarshal(raw, arrived))
	arrived.SetManagedFields(nil)
	return arrived
}

// What arrives is what a round trip through JSON makes of it, of every kind, to the last field.
func TestWire(t *testing.T) {
	changed := 0
	for _, k := range kinds() {
		for seed := range int64(50) {
			o := k.New()
			filler(seed).Fill(o)
			want := text(t, k, o)
			require.True(t, reflect.DeepEqual(want, wire(o)), "%s, seed %d", k.Kind, seed)
			if !reflect.DeepEqual(o, want) {
				changed++
			}
		}
	}
	assert.Positive(t, changed)
}

// A merge patch makes the same of a typed object as of its text.
func TestMerge(t *testing.T) {
	typed := 0
	for _, k := range kinds() {
		for seed := range int64(50) {
			before, after := k.New(), k.New()
			filler(seed).Fill(before)
			filler(seed).Fill(after)
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			alter(reflect.ValueOf(after).Elem(), filler(seed+1000), r)
			stored := wire(before)
			data, err := client.MergeFrom(before).Data(after)
			require.NoError(t, err)
			want, err := applied(k, stored, data, types.MergePatchType)
			require.NoError(t, err)
			got, err := merged(stored, data, types.MergePatchType)
			if err != nil {
				continue
			}
			typed++
			require.True(t, reflect.DeepEqual(want, got), "%s, seed %d: %s", k.Kind, seed, data)
		}
	}
	assert.Greater(t, typed, 800)
}

// alter some of the fields of a struct, and of those below.
func alter(v reflect.Value, f *randfill.Filler, r *rand.Rand) {
	for i := range v.NumField() {
		field := v.Field(i)
		switch {
		case field.Kind() == reflect.Struct && !reflect.PointerTo(field.Type()).Implements(marshaler):
			alter(field, f, r)
		case r.IntN(6) == 0:
			field.SetZero()
		case r.IntN(3) == 0:
			f.Fill(field.Addr().Interface())
		}
	}
}

func TestMergeOfMaps(t *testing.T) {
	type nested struct {
		Labels map[string]string `json:"labels,omitempty"`
		Inner  *struct {
			N int32 `json:"n"`
		} `json:"inner,omitempty"`
	}
	var v nested
	require.NoError(t, merge(reflect.ValueOf(&v).Elem(), json.RawMessage(`{"labels":{"a":"b","c":null},"inner":{"n":3},"unknown":1}`)))
	assert.Equal(t, map[string]string{"a": "b"}, v.Labels)
	assert.Equal(t, int32(3), v.Inner.N)
	require.NoError(t, merge(reflect.ValueOf(&v).Elem(), json.RawMessage(`{"labels":{"a":null},"inner":null}`)))
	assert.Equal(t, nested{Labels: map[string]string{}}, v)
	assert.Error(t, merge(reflect.ValueOf(&v).Elem(), json.RawMessage(`{"labels":"none"}`)))
}
