import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's recipes, told by lines what to do: test/interop/peer.ts says how. One session; each thing has a thread of its own, because
 * a mutex belongs to the thread that has acquired it.
 *
 * <p>Arguments: connect string, session timeout in ms.
 */
public final class Curator {
    private static final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private static final Map<String, Thing> things = new ConcurrentHashMap<>();
    private static PrintStream out;
    private static CuratorFramework client;

    private interface Thing {
        /** @return what is answered; null: nothing */
        List<String> does(String verb, List<String> args) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        client = CuratorFrameworkFactory.newClient(args[0], Integer.parseInt(args[1]), 10_000, new ExponentialBackoffRetry(50, 10));
        client.start();
        client.blockUntilConnected();
        answer("0", "ok", List.of());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> fields = Arrays.asList(line.split("\t", -1));
            threads.computeIfAbsent(fields.get(1), name -> Executors.newSingleThreadExecutor()).execute(() -> perform(fields));
        }
        System.exit(0);
    }

    private static void perform(List<String> fields) {
        String id = fields.get(0);
        try {
            List<String> args = fields.subList(3, fields.size());
            List<String> value = null;
            if (fields.get(2).equals("make")) things.put(fields.get(1), make(args.get(0), args.get(1), args.subList(2, args.size())));
            else value = things.get(fields.get(1)).does(fields.get(2), args);
            answer(id, "ok", value == null ? List.of() : value);
        } catch (Throwable error) {
            answer(id, "error", List.of(error.toString().replaceAll("\\s+", " ")));
        }
    }

    private static synchronized void answer(String id, String how, List<String> values) {
        List<String> fields = new ArrayList<>(List.of(id, how));
        // A line break in a value would end the line.
        for (String value : values) fields.add(value.replace("\n", "\\n"));
        out.println(String.join("\t", fields));
    }

    private static Thing make(String kind, String path, List<String> args) throws Exception {
        switch (kind) {
            case "mutex": return mutex(new InterProcessMutex(client, path));
            case "rw": return readWrite(new InterProcessReadWriteLock(client, path));
            case "latch": return latch(new LeaderLatch(client, path, args.get(0)));
            case "barrier": return barrier(new DistributedBarrier(client, path));
            case "double": return doubleBarrier(new DistributedDoubleBarrier(client, path, Integer.parseInt(args.get(0))));
            case "group": return group(new GroupMember(client, path, args.get(0), args.get(1).getBytes(StandardCharsets.UTF_8)));
            case "semaphore": return semaphore(new InterProcessSemaphoreV2(client, path, Integer.parseInt(args.get(0))));
            case "revoker": return (verb, none) -> { Revoker.attemptRevoke(client, path); return null; };
            default: throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    private static Thing mutex(InterProcessMutex mutex) {
        AtomicInteger revocations = new AtomicInteger();
        mutex.makeRevocable(lock -> revocations.incrementAndGet());
        return (verb, args) -> {
            switch (verb) {
                case "acquire": mutex.acquire(); return null;
                case "try": return List.of(String.valueOf(mutex.acquire(Long.parseLong(args.get(0)), TimeUnit.MILLISECONDS)));
                case "release": mutex.release(); return null;
                case "revocations": return List.of(String.valueOf(revocations.get()));
                default: throw new IllegalArgumentException(verb);
            }
        };
    }

    private static Thing readWrite(InterProcessReadWriteLock lock) {
        return (verb, args) -> {
            switch (verb) {
                case "read": lock.readLock().acquire(); return null;
                case "write": lock.writeLock().acquire(); return null;
                case "release-read": lock.readLock().release(); return null;
                case "release-write": lock.writeLock().release(); return null;
                default: throw new IllegalArgumentException(verb);
            }
        };
    }

    private static Thing latch(LeaderLatch latch) {
        return (verb, args) -> {
            switch (verb) {
                case "start": latch.start(); return null;
                case "await": latch.await(); return null;
                case "leads": return List.of(String.valueOf(latch.hasLeadership()));
                case "leader": return List.of(latch.getLeader().getId());
                case "participants": {
                    List<String> ids = new ArrayList<>();
                    for (Participant each : latch.getParticipants()) ids.add(each.getId());
                    return ids;
                }
                case "close": latch.close(); return null;
                default: throw new IllegalArgumentException(verb);
            }
        };
    }

    private static Thing barrier(DistributedBarrier barrier) {
        return (verb, args) -> {
            switch (verb) {
                case "raise": barrier.setBarrier(); return null;
                case "wait": barrier.waitOnBarrier(); return null;
                case "lift": barrier.removeBarrier(); return null;
                default: throw new IllegalArgumentException(verb);
            }
        };
    }

    private static Thing doubleBarrier(DistributedDoubleBarrier barrier) {
        return (verb, args) -> {
            switch (verb) {
                case "enter": barrier.enter(); return null;
                case "leave": barrier.leave(); return null;
                default: throw new IllegalArgumentException(verb);
            }
        };
    }

    private static Thing group(GroupMember member) {
        return (verb, args) -> {
            switch (verb) {
                case "join": member.start(); return null;
                case "leave": member.close(); return null;
                case "members": {
                    List<String> members = new ArrayList<>();
                    member.getCurrentMembers().forEach((id, data) -> members.add(id + "=" + new String(data, StandardCharsets.UTF_8)));
                    return members;
                }
                default: throw new IllegalArgumentException(verb);
            }
        };
    }

    private static Thing semaphore(InterProcessSemaphoreV2 semaphore) {
        List<Lease> leases = new ArrayList<>();
        return (verb, args) -> {
            switch (verb) {
                case "try": {
                    Lease lease = semaphore.acquire(Long.parseLong(args.get(0)), TimeUnit.MILLISECONDS);
                    if (lease != null) leases.add(lease);
                    return List.of(String.valueOf(lease != null));
                }
                case "release": leases.remove(0).close(); return null;
                default: throw new IllegalArgumentException(verb);
            }
        };
    }
}
