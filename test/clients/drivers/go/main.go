// Arguments: the gateway's address, a name, and bytes in hexadecimal. Prints what it was told.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"postern/clients/postern"
)

const octets = "application/octet-stream"

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	url, name, raw := os.Args[1], os.Args[2], must(hex.DecodeString(os.Args[3]))
	ctx := context.Background()
	client := must(postern.NewClientWithResponses(url))

	acquire := func(label string) *postern.AcquireLockResponse {
		requestId, ttlMs := rand.Text(), 15_000
		return must(client.AcquireLockWithResponse(ctx, name, nil, postern.AcquireLockRequest{
			Lease:     &postern.LeaseOfAcquire{TtlMs: &ttlMs, Label: &label},
			RequestId: &requestId,
		}))
	}
	held, refused := acquire("held"), acquire("refused")
	if held.JSON200 == nil || refused.ApplicationproblemJSON409 == nil {
		log.Fatalf("%s\n%s", held.Body, refused.Body)
	}

	pushed := must(client.PushRawMessageWithBodyWithResponse(ctx, name, nil, octets, bytes.NewReader(raw)))
	if pushed.JSON201 == nil {
		log.Fatalf("%s", pushed.Body)
	}

	none := postern.PutConfigParamsIfNoneMatch("*")
	put := must(client.PutConfigWithBodyWithResponse(ctx, name+"/primary",
		&postern.PutConfigParams{IfNoneMatch: &none}, octets, bytes.NewReader(raw)))
	if put.JSON201 == nil {
		log.Fatalf("%s", put.Body)
	}

	fmt.Println(string(must(json.Marshal(map[string]any{
		"fencingToken": held.JSON200.FencingToken,
		"refused":      refused.ApplicationproblemJSON409.Code,
		"pushed":       pushed.JSON201.Status,
		"etag":         put.JSON201.Etag,
	}))))
}
